"""Does the explanation depend on the model at all? Weights, or labels, are replaced by random ones.

    cascading      layers from the top down, each in addition to those before; explained after each
    independent    one layer at a time, all others as trained
    correlation    Spearman between trained and randomised explanation, of the scores and of their size
    sanity         mean over cascading stages of |correlation of sizes|: low is good, 0 the best

A method that gives the same words for a random network shows the text, not the model. With few words there is
correlation by chance (mean |correlation| of random scores: 0.37 for 6 words, 0.18 for 20), and the control
shows it. Scores that are all equal have correlation 0. With fewer than three units the value is nan.

Look at the whole curve, not only at the mean. If the upper layers hardly change what the lower layers
computed, random upper layers hardly change the function. Then occlusion, which runs the function, keeps its
order, too, and a high value is no fault. A method is suspicious if it does not change at a stage where
occlusion changes.

The weights of a layer are drawn from a normal distribution with the mean and standard deviation of each
tensor (so the gains of a LayerNorm stay near one, and constant tensors do not change). Layers are found by
the names of the parameters, in the order in which the module defines them, token tables lowest; a table that
is tied to the output counts as the embedding. Of two encoders, the one that is defined last comes first.
There are at most eight stages, including the first and the last. Only a copy is randomised: the user's model
is not changed.

label_randomisation trains one model on the true labels and one on shuffled labels, which a model can only
memorise.

Quantus' MPRT calls `reset_parameters` of each module, so random weights have the scale of a new layer, not of
the trained layer. Weights of modules without this function (GPT-2's Conv1D, plain parameters) stay trained.

Cost: one explanation per stage. Adebayo et al. 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn

from heedful.core import registry
from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Model
from heedful.core.registry import MetricRows, metric
from heedful.core.result import NotebookRepr
from heedful.core.target import Target
from heedful.engine.question import run_explainer
from heedful.engine.session import Session
from heedful.metrics.metric_input import MetricInput, ReExplain
from heedful.metrics.random_orders import merged_scores
from heedful.metrics.robustness import own_seed
from heedful.models.load import load
from heedful.models.model_copies import can_copy, copied
from heedful.nn.one_layer import OneLayerClassifier, OneLayerConfig
from heedful.nn.train import TrainConfig
from heedful.nn.train import fit as train_on

MAX_STAGES = 8
MODES = ("cascading", "independent")


@dataclass(frozen=True)
class RandomisedLayer:
    """What is left of an explanation once a layer is random."""

    name: str  # the layer that was drawn last
    signed: float  # correlation of the scores
    size: float  # of their absolute values


@metric(
    "sanity",
    kind="re-explain",
    better="low",
    best=0.0,
    cite="Adebayo et al. 2018",
    expensive=True,
    spoiled_by="stuck",
    rows=lambda model, x, target, unit: explained_at_stages(model, x),
)
def sanity(subject: MetricInput, rng: np.random.Generator) -> float:
    """How similar the scores are for the trained network and for one with random weights.

    Limitations: A method may pass because everything in it changes with the weights, including noise. Passing
    shows that the scores depend on the weights, not that they are right.
    """
    if len(subject.scores) < 3 or not np.ptp(np.abs(subject.scores)) or not can_copy(subject.model):
        return float("nan")
    curve = randomisation_curve(subject, seed=int(rng.integers(2**31)))
    return float(np.mean([abs(stage.size) for stage in curve]))


def explained_at_stages(model: Model, x: Input) -> MetricRows:
    """One explanation per stage, at most."""
    return MetricRows(again=MAX_STAGES * (x,) if can_copy(model) else ())


def randomisation_curve(
    subject: MetricInput, mode: str = "cascading", seed: int = 0, most: int | None = MAX_STAGES
) -> tuple[RandomisedLayer, ...]:
    """Correlations with the trained model's explanation, the top layer first."""
    return tuple(
        compared(name, subject.scores, again.unit_scores(subject.units.name))
        for name, again in randomised(subject, mode, seed, most)
    )


def randomised(
    subject: MetricInput, mode: str = "cascading", seed: int = 0, most: int | None = MAX_STAGES
) -> Iterator[tuple[str, Attribution]]:
    """(layer, the explanation once it is random), the top layer first."""
    if mode not in MODES:
        raise HeedfulError(f"unknown mode {mode!r}", fix=f"Use one of: {', '.join(MODES)}")
    copy, rng = copied(subject.model), torch.Generator().manual_seed(seed)
    item = subject.item
    layers = list(reversed(layers_of(copy.module).items()))
    shown = {
        round(k) for k in np.linspace(0, len(layers) - 1, min(len(layers), most or len(layers))).tolist()
    }
    for number, (name, tensors) in enumerate(layers):
        trained = [tensor.detach().clone() for tensor in tensors]
        randomise(tensors, rng)
        if number in shown:
            yield name, subject.again(copy.model(), item.x, item.target, own_seed(subject))
        if mode == "independent":
            for tensor, old in zip(tensors, trained, strict=True):
                tensor.data.copy_(old)


def layers_of(module: nn.Module) -> dict[str, list[Tensor]]:
    """The parameters of each layer, from the bottom up.

    The name of a layer is the name of its parameters up to the first number, or up to two words if there is
    no number. Layers are in the order of definition, but token tables come first: a module's own parameters
    are listed before those of its parts.
    """
    layers: dict[str, list[Tensor]] = {}
    for name, tensor in module.named_parameters():
        parts = name.split(".")
        number = next((i for i, part in enumerate(parts) if part.isdigit()), None)
        key = parts[:-1][:2] or parts if number is None else parts[: number + 1]
        layers.setdefault(".".join(key), []).append(tensor)
    tables = {id(part.weight) for part in module.modules() if isinstance(part, nn.Embedding)}

    def looks_up(tensors: list[Tensor]) -> bool:
        wide = [tensor for tensor in tensors if tensor.ndim > 1]
        return bool(wide) and all(id(tensor) in tables for tensor in wide)

    return dict(sorted(layers.items(), key=lambda layer: not looks_up(layer[1])))


@torch.no_grad()
def randomise(tensors: Sequence[Tensor], rng: torch.Generator) -> None:
    """Replace each tensor by normal noise with the mean and standard deviation of that tensor."""
    for tensor in tensors:
        noise = torch.randn(tensor.shape, generator=rng).to(tensor)
        tensor.copy_(tensor.mean() + tensor.std(correction=0) * noise)


def compared(name: str, scores: Floats, others: Floats) -> RandomisedLayer:
    return RandomisedLayer(name, correlation(scores, others), correlation(np.abs(scores), np.abs(others)))


def correlation(a: Floats, b: Floats) -> float:
    """Spearman correlation. It is 0 if all values of `a` or `b` are equal. Values that differ only by
    rounding are ties."""
    a, b = merged_scores(a), merged_scores(b)
    return float(stats.spearmanr(a, b).statistic) if np.ptp(a) and np.ptp(b) else 0.0


# --- labels ------------------------------------------------------------------------------------------------

Fit = Callable[[Sequence[str], Sequence[int], int], Model]  # (texts, labels, seed)


@dataclass(frozen=True)
class LabelTest(NotebookRepr):
    """Explanations of a model with the true labels and one with shuffled labels, text by text."""

    stages: tuple[RandomisedLayer, ...]  # one per text
    fitted: tuple[float, float]  # share of its own training labels each of the two gives back

    @property
    def value(self) -> float:
        """Mean |correlation| of sizes: low is good."""
        return float(np.mean([abs(stage.size) for stage in self.stages]))


def label_randomisation(
    fit: Fit,
    texts: Sequence[str],
    labels: Sequence[int],
    method: str | ReExplain,
    probes: Sequence[str] | None = None,
    *,
    unit: str = "word",
    seed: int = 0,
) -> LabelTest:
    """Train with the labels and with the labels shuffled, and compare explanations of the same class."""
    shuffled = np.random.default_rng(seed).permutation(np.asarray(labels)).tolist()
    true, other = fit(texts, labels, seed), fit(texts, shuffled, seed)
    ask = _by_name(method) if isinstance(method, str) else method
    stages = []
    for text in texts if probes is None else probes:
        x = true.encode(text)
        target = true.target(x)
        first, second = (ask(m, x, target, seed).unit_scores(unit) for m in (true, other))
        stages.append(compared(text, first, second))
    return LabelTest(tuple(stages), (_accuracy(true, texts, labels), _accuracy(other, texts, shuffled)))


def _by_name(name: str) -> ReExplain:
    entry = registry.get(name)

    def ask(model: Model | Session, x: Input, target: Target, seed: int) -> Attribution:
        return run_explainer(entry, model, x, target, **({"seed": seed} if "seed" in entry.params else {}))

    return ask


def _accuracy(model: Model, texts: Sequence[str], labels: Sequence[int]) -> float:
    results = [model.target(model.encode(text)).index for text in texts]
    return float(np.mean([a == b for a, b in zip(results, labels, strict=True)]))


def one_layer_fit(texts: Sequence[str], labels: Sequence[int], seed: int = 0, steps: int = 300) -> Model:
    """A small one-layer classifier trained on these texts, words in lower case: seconds on a CPU."""
    tokenizer = _word_tokenizer(texts)
    encoded = tokenizer(list(texts), padding=True, return_tensors="pt", verbose=False)
    ids, mask, wanted = encoded["input_ids"], encoded["attention_mask"], torch.tensor(list(labels))
    longest = max(64, ids.shape[1])
    classes = int(wanted.max()) + 1
    config = OneLayerConfig(len(tokenizer), 2, width=32, d_att=16, d_out=16, context=longest, classes=classes)
    module = OneLayerClassifier(config, seed=seed)
    rng = torch.Generator().manual_seed(seed)

    def loss(step: int) -> Tensor:
        rows = torch.randint(len(ids), (32,), generator=rng)
        return nn.functional.cross_entropy(module.attend(ids[rows], mask[rows]).logits, wanted[rows])

    settings = TrainConfig(steps=steps, lr=2e-2, warmup=10, weight_decay=0.0, seed=seed, progress=False)
    train_on(module, loss, settings)
    return load(
        module,
        tokenizer=tokenizer,
        forward=lambda embeds, mask: module.attend(inputs_embeds=embeds, attention_mask=mask),
    )


def _word_tokenizer(texts: Sequence[str]) -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    lower, cut = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    words = sorted({word for text in texts for word, _ in cut.pre_tokenize_str(lower.normalize_str(text))})
    ids = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[MASK]", *words])}
    raw = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    raw.normalizer, raw.pre_tokenizer = lower, cut
    raw.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 2)])
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=raw, model_max_length=512, **special)
