"""heedful explains transformer models and measures which explanation you can trust.

>>> import heedful
>>> model = heedful.load("zoo:sentiment")
>>> comparison = heedful.explain(model, "The food was great")
>>> comparison["occlusion"].top(1)[0].text
'great'

Names are imported when first used, so `import heedful` costs milliseconds and needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from heedful._version import __version__
from heedful.core.errors import HeedfulError

if TYPE_CHECKING:
    from heedful.audits import Audit, audit
    from heedful.audits.weigh import weigh
    from heedful.comparisons.execute import explain
    from heedful.comparisons.explain_tokens import explain_each
    from heedful.comparisons.planning import plan
    from heedful.comparisons.result import Comparison
    from heedful.core.attribution import Attribution, UnitScore, Written
    from heedful.core.cost import Cost
    from heedful.core.evidence import Evidence
    from heedful.core.input import Input, Units
    from heedful.core.lab_report import LabReport
    from heedful.core.target import Target
    from heedful.core.trace import Trace
    from heedful.features.activations.harvest import harvest
    from heedful.features.activations.store import ActivationStore
    from heedful.features.reading.feature_pages import feature_pages
    from heedful.features.reading.read_features import read_features
    from heedful.features.reading.results import FeaturePages
    from heedful.features.sae.autoencoder import SAE
    from heedful.features.sae.train import train_sae
    from heedful.features.steering.steer import steer
    from heedful.heads.ablation.ablate import ablated, head_means
    from heedful.heads.ablation.importance import head_importance
    from heedful.heads.ablation.pruning import prune_heads
    from heedful.heads.atlas import Atlas, attention
    from heedful.labs.base.registry import run_lab
    from heedful.metrics.verdict_types import Verdict
    from heedful.modalities.text import TextInput
    from heedful.models.image_reader import ImageReader
    from heedful.models.load import load
    from heedful.server.serve import serve
    from heedful.trials.api import trial
    from heedful.trials.result import Trial

_HOME = {
    "load": "heedful.models.load",
    "explain": "heedful.comparisons.execute",
    "plan": "heedful.comparisons.planning",
    "explain_each": "heedful.comparisons.explain_tokens",
    "ablated": "heedful.heads.ablation.ablate",
    "attention": "heedful.heads.atlas",
    "FeaturePages": "heedful.features.reading.results",
    "feature_pages": "heedful.features.reading.feature_pages",
    "read_features": "heedful.features.reading.read_features",
    "SAE": "heedful.features.sae.autoencoder",
    "train_sae": "heedful.features.sae.train",
    "steer": "heedful.features.steering.steer",
    "Atlas": "heedful.heads.atlas",
    "harvest": "heedful.features.activations.harvest",
    "ActivationStore": "heedful.features.activations.store",
    "head_means": "heedful.heads.ablation.ablate",
    "head_importance": "heedful.heads.ablation.importance",
    "prune_heads": "heedful.heads.ablation.pruning",
    "run_lab": "heedful.labs.base.registry",
    "LabReport": "heedful.core.lab_report",
    "serve": "heedful.server.serve",
    "audit": "heedful.audits",
    "weigh": "heedful.audits.weigh",
    "Audit": "heedful.audits",
    "Attribution": "heedful.core.attribution",
    "Comparison": "heedful.comparisons.result",
    "Cost": "heedful.core.cost",
    "Input": "heedful.core.input",
    "TextInput": "heedful.modalities.text",
    "Units": "heedful.core.input",
    "ImageReader": "heedful.models.image_reader",
    "Evidence": "heedful.core.evidence",
    "Verdict": "heedful.metrics.verdict_types",
    "Target": "heedful.core.target",
    "Trial": "heedful.trials.result",
    "trial": "heedful.trials.api",
    "Trace": "heedful.core.trace",
    "UnitScore": "heedful.core.attribution",
    "Written": "heedful.core.attribution",
}

__all__ = [
    "SAE",
    "ActivationStore",
    "Atlas",
    "Attribution",
    "Audit",
    "Comparison",
    "Cost",
    "Evidence",
    "FeaturePages",
    "HeedfulError",
    "ImageReader",
    "Input",
    "LabReport",
    "Target",
    "TextInput",
    "Trace",
    "Trial",
    "UnitScore",
    "Units",
    "Verdict",
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
