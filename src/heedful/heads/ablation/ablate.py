"""Without a head: its output replaced, in every pass inside a block, and nothing left behind.

    output of head h at query q      o_q = sum_t A_qt v_t      (d,), before the output projection W_O
    zero       o_q = 0               the same as W_O without the head's columns
    mean       o_q = mean of o over all tokens of reference texts (`head_means`): what it says anyway stays
    uniform    A_qt = 1 / number of keys that q may look at: the head is there, but chooses nothing

Heads are named layer.head, both counted from 0: "2.3"; "2.*" or "2" is a whole layer, "cross:1.0" a head of
another stack ("self" is meant otherwise: the encoder's, of an encoder-decoder), "all" every head there is.

Cost: nothing beside the passes inside; `head_means` takes one forward a text.
Needs: a model whose attention can be changed as it runs (transformers' switch, or the one-layer classifier).
Michel et al. 2019 (zero); Voita et al. 2019; Kovaleva et al. 2019 (uniform); Wang et al. 2023 (mean).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

from heedful.core.errors import HeedfulError
from heedful.core.progress import Report, counting
from heedful.core.result import NotebookRepr
from heedful.core.whole_numbers import whole_number

if TYPE_CHECKING:
    from torch import Tensor

    from heedful.core.model import Model
    from heedful.models.adapter import TokenModel
    from heedful.models.attention_hooks import AttentionState, Edit, Site

HOWS = {
    "zero": "its output is 0",
    "mean": "its output is its mean over reference texts",
    "uniform": "uniform attention",
}
NAMES = 'Name heads as "2.3" (layer 2, head 3, from 0), "2.*", "cross:1.0" or "all"'


class Head(NamedTuple):
    """One head, counted from 0."""

    stack: str
    layer: int
    head: int

    @property
    def name(self) -> str:
        """As it is typed: 2.3, cross:1.0"""
        return f"{layer_name(self.stack, self.layer)}.{self.head}"


def layer_name(stack: str, layer: int) -> str:
    return str(layer) if stack == "self" else f"{stack}:{layer}"


Anatomy = Mapping[str, tuple[int, ...]]  # stack -> number of heads of each of its layers


@dataclass(frozen=True, eq=False)
class Means(NotebookRepr):
    """Mean output of every head."""

    values: Mapping[Site, Tensor]  # (H, d) a layer
    texts: int
    tokens: int  # of the first stack: how many outputs were averaged
    notes: tuple[str, ...] = ()  # texts that were cut


# --- which heads ------------------------------------------------------------------------------------------


def anatomy(model: Model) -> dict[str, tuple[int, ...]]:
    """Heads of every layer of every stack, seen in a pass over some input."""
    numbers: dict[Site, int] = {}

    def look(state: AttentionState) -> AttentionState:
        numbers[state.site] = state.heads.shape[1]
        return state

    with model.attending(look):
        model.attention_only(model.encode(model.some_input))
    shape: dict[str, tuple[int, ...]] = {}
    for site in sorted(numbers, key=lambda site: site.layer):
        shape[site.stack] = (*shape.get(site.stack, ()), numbers[site])
    return {stack: shape[stack] for stack in ("self", "decoder", "cross") if stack in shape}


def every_head(shape: Anatomy) -> tuple[Head, ...]:
    """All heads, stack by stack and layer by layer."""
    return tuple(
        Head(stack, layer, head)
        for stack, layers in shape.items()
        for layer, count in enumerate(layers)
        for head in range(count)
    )


def named(spec: Any, shape: Anatomy) -> tuple[Head, ...]:
    """The heads a user means: names, (layer, head) pairs, or lists of these; each once, in order."""
    result = set(_meant(spec, shape))
    if not result:
        raise HeedfulError("no head was named", fix=NAMES)
    return tuple(head for head in every_head(shape) if head in result)


def _meant(spec: Any, shape: Anatomy) -> Iterator[Head]:
    if isinstance(spec, str):
        for part in spec.split(","):
            if part.strip():
                yield from _read(part.strip(), shape)
    elif isinstance(spec, Integral):
        yield from _checked("self", int(spec), None, shape)
    elif isinstance(spec, tuple) and spec and all(isinstance(part, Integral) for part in spec[-2:]):
        stack, *place = spec if isinstance(spec[0], str) else ("self", *spec)
        if len(place) != 2:
            raise HeedfulError(f"{spec!r} names no head", fix="Give (layer, head), or a list of names")
        yield from _checked(stack, int(place[0]), int(place[1]), shape)
    elif isinstance(spec, Iterable):
        for part in spec:
            yield from _meant(part, shape)
    else:
        raise HeedfulError(f"{spec!r} names no head", fix=NAMES)


def _read(name: str, shape: Anatomy) -> Iterator[Head]:
    """One name: [stack:]layer, [stack:]layer.head, with * or all for any."""
    stack, colon, place = name.rpartition(":")
    if place in ("all", "*"):
        chosen = {stack: _layers(stack, shape)} if colon else shape
        yield from every_head(chosen)
        return
    layer, _, head = place.partition(".")
    row, column = whole_number(layer), whole_number(head)
    if row is None or (column is None and head not in ("", "*")) or place.endswith("."):
        raise HeedfulError(f"{name!r} names no head", has(shape), NAMES)
    yield from _checked(stack or "self", row, column, shape)


def _layers(stack: str, shape: Anatomy) -> tuple[int, ...]:
    if stack not in shape:
        raise HeedfulError(f"there is no stack {stack!r}", has(shape))
    return shape[stack]


def _checked(stack: str, layer: int, head: int | None, shape: Anatomy) -> Iterator[Head]:
    layers = _layers(stack, shape)
    if not 0 <= layer < len(layers):
        raise HeedfulError(f"there is no layer {layer_name(stack, layer)}", has(shape))
    if head is not None and not 0 <= head < layers[layer]:
        raise HeedfulError(f"there is no head {Head(stack, layer, head).name}", has(shape))
    for one in range(layers[layer]) if head is None else (head,):
        yield Head(stack, layer, one)


def has(shape: Anatomy) -> str:
    """What the model has, in words."""
    parts = []
    for stack, layers in shape.items():
        counts = sorted(set(layers))
        heads = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        where = "" if stack == "self" else f"{stack}: "
        parts.append(f"{where}layers 0 to {len(layers) - 1} of {heads} heads, counted from 0")
    return "the model has " + "; ".join(parts)


# --- without them -----------------------------------------------------------------------------------------


@contextmanager
def ablated(model: Model, heads: Any, how: str = "zero", *, means: Means | None = None) -> Iterator[None]:
    """Run a model without some attention heads, inside a `with` block.

    Blocks can be nested. Heads that the outer block removed stay removed.

    Parameters
    ----------
    model
        The result of `heedful.load`.
    heads
        "2.3" (layer 2, head 3, both counted from 0), "2.*" or "2" (all heads of a layer), "cross:1.0"
        (another stack), "all", several of these with commas, `(layer, head)` pairs, or a list of any of
        these.
    how
        How a head is removed. "zero": its output is 0. "mean": its output is the mean over reference texts.
        "uniform": it attends to all positions equally.
    means
        For `how="mean"`: the result of `heedful.head_means`.

    Yields
    ------
    None
        Inside the block, every function of heedful uses the model without these heads.

    Examples
    --------
    >>> import heedful
    >>> model = heedful.load("zoo:sentiment")
    >>> x = model.encode("The food was great")
    >>> before = model.predict(x)
    >>> with heedful.ablated(model, "3.*"):
    ...     without = model.predict(x)
    >>> without == before
    False
    >>> model.predict(x) == before
    True
    """
    shape = anatomy(model)
    check_how(how, means)
    chosen = named(heads, shape)
    with model.attending(replacing(masks([chosen], shape), how, means)):
        yield


def check_how(how: str, means: Means | None) -> None:
    if how not in HOWS:
        raise HeedfulError(f"a head cannot be removed by {how!r}", fix=f"Use one of: {', '.join(HOWS)}")
    if how == "mean" and means is None:
        raise HeedfulError(
            "mean ablation needs the mean outputs",
            "they come from reference texts",
            "Give means=heedful.head_means(model, texts)",
        )


def masks(sets: Sequence[Iterable[Head]], shape: Anatomy) -> dict[Site, Tensor]:
    """(B, H) bool a layer: which heads are gone in which row. Layers that lose none are left out."""
    import torch

    from heedful.models.attention_hooks import Site

    tensors: dict[Site, Tensor] = {}
    for row, heads in enumerate(sets):
        for stack, layer, head in heads:
            site = Site(stack, layer)
            if site not in tensors:
                tensors[site] = torch.zeros(len(sets), shape[stack][layer], dtype=torch.bool)
            tensors[site][row, head] = True
    return tensors


def replacing(gone: Mapping[Site, Tensor], how: str, means: Means | None = None) -> Edit:
    """The edit that replaces the output of heads marked in `gone` (B or 1, H), and of no other."""

    def edit(state: AttentionState) -> AttentionState:
        if state.site not in gone:
            return state
        mask = gone[state.site][:, :, None, None].to(state.heads.device)  # (B or 1, H, 1, 1)
        return _replaced(state, mask, how, means)

    return edit


def _replaced(state: AttentionState, mask: Tensor, how: str, means: Means | None) -> AttentionState:
    """`where` keeps the graph whole: a trace finds weights of heads that are gone, with gradients of zero."""
    import torch

    from heedful.models.attention_hooks import uniform

    if how == "uniform":
        return state.reweighed(torch.where(mask, uniform(state), state.weights))
    if how == "zero":
        return replace(state, heads=state.heads.masked_fill(mask, 0))
    value = _mean_of(state, means)[None, :, None].to(state.heads)  # (1, H, 1, d)
    return replace(state, heads=torch.where(mask, value, state.heads))


def _mean_of(state: AttentionState, means: Means | None) -> Tensor:
    tensor = None if means is None else means.values.get(state.site)
    size = (state.heads.shape[1], state.heads.shape[-1])
    if tensor is None or tuple(tensor.shape) != size:
        raise HeedfulError("these means are of another model", fix="Make them with heedful.head_means")
    return tensor


def head_means(
    model: TokenModel,
    texts: Iterable[Any],
    *,
    answers: Iterable[Any] | None = None,
    long: str = "truncate",
    progress: Report | None = None,
) -> Means:
    """Compute the mean output of every attention head over reference texts.

    Special tokens are included. `heedful.ablated(..., how="mean")` needs the result.

    Parameters
    ----------
    model
        The result of `heedful.load`.
    texts
        Reference texts.
    answers
        For an encoder-decoder: the answer to each text. If `None`, the model writes the answers by greedy
        decoding.
    long
        What to do with a text that is too long: "error" or "truncate".
    progress
        A function that is called with a `heedful.core.progress.Step` during the work.

    Returns
    -------
    Means
        One mean vector per head.

    Examples
    --------
    >>> import heedful
    >>> model = heedful.load("zoo:sentiment")
    >>> means = heedful.head_means(model, ["The food was great", "The service was bad"])
    >>> with heedful.ablated(model, "0.1", how="mean", means=means):
    ...     comparison = heedful.explain(model, "The food was great", methods=["random"])
    >>> comparison.target.name
    'positive'
    """
    from heedful.heads.capture import written

    texts = list(texts)
    given = [None] * len(texts) if answers is None else list(answers)
    if not texts or len(given) != len(texts):
        raise HeedfulError(f"{len(texts)} reference texts and {len(given)} answers", fix="Give one per text")
    notes: list[str] = []
    sums: dict[Site, Tensor] = {}
    counts: dict[Site, int] = {}

    def look(state: AttentionState) -> AttentionState:
        outputs = state.heads.detach().double()  # (1, H, Q, d)
        sums[state.site] = sums.get(state.site, 0) + outputs.sum((0, 2))
        counts[state.site] = counts.get(state.site, 0) + outputs.shape[0] * outputs.shape[2]
        return state

    for done, (text, answer) in enumerate(zip(texts, given, strict=True), 1):
        x = model.encode(text, long=long)
        notes += [f"text {done - 1}: {note}" for note in x.notes]
        target = written(model, x, answer)  # outside: what it writes is no reference text
        with model.attending(look):
            model.attention_only(x, target)
        counting(progress, "averaging heads")(done, len(texts))
    values = {site: total / counts[site] for site, total in sums.items()}
    return Means(values, len(texts), next(iter(counts.values())), tuple(notes))
