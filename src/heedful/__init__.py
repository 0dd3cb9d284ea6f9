"""heedful explains transformers and tells you which explanation to heed.

>>> import heedful
>>> model = heedful.load("zoo:sentiment")
>>> comparison = heedful.explain(model, "the service is not bad")
>>> comparison["occlusion"].words()

Names are imported when first used, so `import heedful` costs milliseconds and needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from heedful._version import __version__
from heedful.errors import HeedfulError

if TYPE_CHECKING:
    from heedful.auditing import Audit, audit
    from heedful.auditing.weigh_scores import weigh
    from heedful.debate.result import Trial
    from heedful.debate.start import trial
    from heedful.each import explain_each
    from heedful.evidence.verdict import Verdict
    from heedful.features.harvest import harvest
    from heedful.features.pages import FeaturePages, feature_pages
    from heedful.features.reading import read_features
    from heedful.features.sae import SAE
    from heedful.features.steer import steer
    from heedful.features.store import Acts
    from heedful.features.train import train_sae
    from heedful.heads.ablation import ablated, head_means
    from heedful.heads.atlas import Atlas, attention
    from heedful.heads.importance import head_importance
    from heedful.heads.pruning import prune_heads
    from heedful.labs.frame import run_lab
    from heedful.labs.report import LabReport
    from heedful.models import load
    from heedful.planning import plan
    from heedful.run import explain
    from heedful.types import Attribution, Comparison, Cost, Encoded, Evidence, Target, Trace, Word, Written
    from heedful.web.server import serve

_HOME = {
    "load": "heedful.models",
    "explain": "heedful.run",
    "plan": "heedful.planning",
    "explain_each": "heedful.each",
    "ablated": "heedful.heads.ablation",
    "attention": "heedful.heads.atlas",
    "FeaturePages": "heedful.features.pages",
    "feature_pages": "heedful.features.pages",
    "read_features": "heedful.features.reading",
    "SAE": "heedful.features.sae",
    "train_sae": "heedful.features.train",
    "steer": "heedful.features.steer",
    "Atlas": "heedful.heads.atlas",
    "harvest": "heedful.features.harvest",
    "Acts": "heedful.features.store",
    "head_means": "heedful.heads.ablation",
    "head_importance": "heedful.heads.importance",
    "prune_heads": "heedful.heads.pruning",
    "run_lab": "heedful.labs.frame",
    "LabReport": "heedful.labs.report",
    "serve": "heedful.web.server",
    "audit": "heedful.auditing",
    "weigh": "heedful.auditing.weigh_scores",
    "Audit": "heedful.auditing",
    "Attribution": "heedful.types",
    "Comparison": "heedful.types",
    "Cost": "heedful.types",
    "Encoded": "heedful.types",
    "Evidence": "heedful.types",
    "Verdict": "heedful.evidence.verdict",
    "Target": "heedful.types",
    "Trial": "heedful.debate.result",
    "trial": "heedful.debate.start",
    "Trace": "heedful.types",
    "Word": "heedful.types",
    "Written": "heedful.types",
}

__all__ = [
    "SAE",
    "Acts",
    "Atlas",
    "Attribution",
    "Audit",
    "Comparison",
    "Cost",
    "Encoded",
    "Evidence",
    "FeaturePages",
    "HeedfulError",
    "LabReport",
    "Target",
    "Trace",
    "Trial",
    "Verdict",
    "Word",
    "Written",
    "__version__",
    "ablated",
    "attention",
    "audit",
    "explain",
    "explain_each",
    "feature_pages",
    "harvest",
    "head_importance",
    "head_means",
    "load",
    "plan",
    "prune_heads",
    "read_features",
    "run_lab",
    "serve",
    "steer",
    "train_sae",
    "trial",
    "weigh",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'heedful' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
