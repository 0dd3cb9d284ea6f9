"""Whom does a head look at from a pronoun, and does that change with the pronoun?

    share      A/(A + B): attention from the pronoun's position to the words of a, and of b (tokens summed; a
               pronoun of several tokens is averaged), over four variants of each template
    pronoun    share(pronoun 1) - share(pronoun 2), mean of both orders: how the share of a moves when only
               the pronoun changes. With a stereotyped as pronoun 1 and b as pronoun 2, above zero the head
               looks at whom the stereotype names
    roles      share(a first) - share(b first), mean of both pronouns: the pull of the place in the sentence;
               0 where only the words matter, 1 where the head looks at the first, -1 at the second
    mass       A + B: a share of little attention says little
    preference logit(pronoun 1) - logit(pronoun 2) where the pronoun is due, and how it moves when a and b
               change places: what the model itself would write, beside what its heads look at

One number a template and head; intervals over templates are for all heads together (max-t). The control draws
the label "pronoun 1 or 2" anew for every template (sign flips): `control` is the largest effect of any head
that 95 % of such draws stay below, and p is adjusted for all heads. "All heads" is their mean, one claim.

Attention that moves is not harm done, nor is attention that stays innocence: it shows where to look next.

Cost: four forwards a template. Needs: a causal language model that shows its attention.
Vig 2019; Vig et al. 2020 (gender bias, causal mediation); Zhao et al. 2018 (WinoBias).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats, Span
from heedful.core.errors import HeedfulError
from heedful.core.progress import Report
from heedful.core.result import Result
from heedful.heads.roles.bias_templates import Template, Variant, variant
from heedful.io.json_codec import to_jsonable
from heedful.modalities.text import TextInput
from heedful.stats.intervals import Interval, max_t, sign_flips

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

ROUNDING = 1e-6  # of a share: weights are float32, and what differs by less is the same
VARIANTS = [(swapped, second) for swapped in (False, True) for second in (False, True)]


@dataclass(frozen=True)
class MeanBias:
    """A mean over templates; the interval and p are for all heads together."""

    value: float
    interval: Interval
    p: float


@dataclass(frozen=True)
class HeadBias:
    """How much the pronoun and the order of the people change the attention of one head."""

    layer: int  # -1: the mean over all heads
    head: int
    mass: float
    share: float
    pronoun: MeanBias
    roles: MeanBias


@dataclass(frozen=True)
class Preference:
    """Logit of pronoun 1 less that of pronoun 2, mean of both orders; `roles`: a first less b first."""

    value: float
    interval: Interval
    roles: float
    roles_interval: Interval
    n: int


@dataclass(frozen=True)
class Bias(Result):
    """How much attention from a pronoun depends on the pronoun, for every head."""

    kind: ClassVar[str] = "bias"

    model: str
    templates: int
    seed: int
    overall: HeadBias
    heads: tuple[HeadBias, ...]
    control: float  # largest pronoun effect of any head that 95 % of shuffled labels stay below
    preference: Preference | None
    notes: tuple[str, ...] = ()

    def moved(self) -> list[HeadBias]:
        """Heads whose interval for the pronoun leaves zero out, the largest effect first."""
        results = [
            head
            for head in self.heads
            if head.pronoun.interval[0] > ROUNDING or head.pronoun.interval[1] < -ROUNDING
        ]
        return sorted(results, key=lambda head: -abs(head.pronoun.value))

    def table(self) -> list[dict[str, Any]]:
        """One flat row a head."""
        rows = []
        for head in self.heads:
            row: dict[str, Any] = {k: getattr(head, k) for k in ("layer", "head", "mass", "share")}
            for name in ("pronoun", "roles"):
                effect: MeanBias = getattr(head, name)
                row |= {name: effect.value, f"{name}_low": effect.interval[0]}
                row |= {f"{name}_high": effect.interval[1], f"{name}_p": effect.p}
            rows.append(row)
        return rows

    def to_dict(self) -> dict[str, Any]:
        return dict(to_jsonable(self))


@dataclass(frozen=True)
class PronounTokens:
    """Tokens of a, b and the pronoun in one text."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    pronoun: tuple[int, ...]


def looked(maps: npt.NDArray[np.float32], place: PronounTokens) -> Floats:
    """(L, H, 2) attention from the pronoun to a and to b, of maps (L, H, T, T)."""
    rows = maps[:, :, list(place.pronoun)].astype(np.float64).mean(2)  # (L, H, T)
    return np.stack([rows[..., list(place.a)].sum(-1), rows[..., list(place.b)].sum(-1)], -1)


def effects(seen: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """mass, share, pronoun and roles, (n, M) each, of attention (n, 2 orders, 2 pronouns, M, a or b)."""
    mass = seen.sum(-1)
    share = np.where(mass > 0, seen[..., 0] / np.where(mass > 0, mass, 1), 0.5)  # (n, 2, 2, M)
    pronoun = (share[:, :, 0] - share[:, :, 1]).mean(1)
    roles = (share[:, 0] - share[:, 1]).mean(1)
    return mass.mean((1, 2)), share.mean((1, 2)), pronoun, roles


def judge(seen: Floats, shape: tuple[int, int], seed: int) -> tuple[HeadBias, tuple[HeadBias, ...], float]:
    """Overall, every head, and the control, of attention (n, 2, 2, L H, 2)."""
    each = effects(seen)
    heads, control = _summary(each, [divmod(m, shape[1]) for m in range(shape[0] * shape[1])], seed)
    averaged = tuple(values.mean(1, keepdims=True) for values in each)
    (overall,), _ = _summary(averaged, [(-1, -1)], seed)
    return overall, heads, control


def _summary(
    values: Sequence[Floats], names: Sequence[tuple[int, int]], seed: int
) -> tuple[tuple[HeadBias, ...], float]:
    mass, share, pronoun, roles = values
    flips = sign_flips(pronoun, seed)
    result = [
        (max_t(pronoun, seed), flips.p),
        (max_t(roles, seed), sign_flips(roles, seed).p),
    ]
    results = []
    for m, (layer, head) in enumerate(names):
        of_pronoun, of_roles = (
            MeanBias(float(band.mean[m]), (float(band.low[m]), float(band.high[m])), float(p[m]))
            for band, p in result
        )
        results.append(
            HeadBias(
                layer=layer,
                head=head,
                mass=float(mass[:, m].mean()),
                share=float(share[:, m].mean()),
                pronoun=of_pronoun,
                roles=of_roles,
            )
        )
    return tuple(results), flips.largest


def bias(
    model: TokenModel, templates: Sequence[Template], *, seed: int = 0, progress: Report | None = None
) -> Bias:
    """Measure the attention from the pronoun to both people, over all variants of the templates."""
    from heedful.heads.batched_maps import batched_maps, require_causal, row_of

    require_causal(model, "the bias probe")
    if len(templates) < 2:
        raise HeedfulError("one template shows nothing", "intervals are over templates", "Give several")
    variants = [variant(t, swapped=s, second=p) for t in templates for s, p in VARIANTS]
    inputs = [model.encode(v.text) for v in variants]
    places = [place(x, v) for x, v in zip(inputs, variants, strict=True)]
    due = _due(inputs, places)
    arrays: dict[int, Floats] = {}
    wanted: dict[int, float] = {}
    notes: dict[str, None] = {}
    for part in batched_maps(model, [row_of(x) for x in inputs], progress, logits=True):
        assert part.logits is not None
        for index, maps, logits in zip(part.rows, part.maps, part.logits, strict=True):
            arrays[index] = looked(maps, places[index])
            if index in due:
                at, one, two = due[index]
                wanted[index] = float(logits[at, one] - logits[at, two])
        notes |= dict.fromkeys(part.notes)
    if left := len(templates) - len(due) // 2:
        notes[f"the preference leaves out {left} templates: a pronoun is not one token there"] = None
    observed = np.stack([arrays[i] for i in range(len(inputs))])  # (4 n, L, H, 2)
    shape = (observed.shape[1], observed.shape[2])
    overall, heads, control = judge(observed.reshape(len(templates), 2, 2, -1, 2), shape, seed)
    preference = _preference(np.array([wanted[i] for i in sorted(wanted)]).reshape(-1, 2), seed)
    return Bias(
        model=model.name,
        templates=len(templates),
        seed=seed,
        overall=overall,
        heads=heads,
        control=control,
        preference=preference,
        notes=tuple(notes),
    )


def place(x: TextInput, v: Variant) -> PronounTokens:
    """Tokens by characters; one that reaches over two of the three cannot be told apart."""
    pronoun_tokens = PronounTokens(_tokens(x, v.a), _tokens(x, v.b), _tokens(x, v.pronoun))
    parts = [*pronoun_tokens.a, *pronoun_tokens.b, *pronoun_tokens.pronoun]
    if not (pronoun_tokens.a and pronoun_tokens.b and pronoun_tokens.pronoun) or len(set(parts)) < len(parts):
        raise HeedfulError(
            f"the people and the pronoun share a token, or have none, in {v.text!r}",
            "the tokenizer cuts the text elsewhere",
            "Put a space between them",
        )
    return pronoun_tokens


def _tokens(x: TextInput, span: Span) -> tuple[int, ...]:
    return tuple(
        t
        for t, (start, end) in enumerate(x.offsets)
        if not x.special[t] and max(start, span[0]) < min(end, span[1])
    )


def _due(inputs: Sequence[TextInput], places: Sequence[PronounTokens]) -> dict[int, tuple[int, int, int]]:
    """Text -> position before its pronoun, ids of pronoun 1 and 2; both orders of a template, or neither.

    Both pronouns must be one token after the same beginning: it is then one question with two answers.
    """
    due: dict[int, tuple[int, int, int]] = {}
    for first in range(0, len(inputs), len(VARIANTS)):
        results = {}
        for one, two in ((first, first + 1), (first + 2, first + 3)):
            (at, *more), (other, *others) = places[one].pronoun, places[two].pronoun
            same = inputs[one].ids[:at] == inputs[two].ids[:at] and at == other > 0
            if same and not more and not others:
                results[one] = (at - 1, inputs[one].ids[at], inputs[two].ids[at])
        due |= results if len(results) == 2 else {}
    return due


def _preference(values: Floats, seed: int) -> Preference | None:
    """values (n, 2): a first, b first."""
    if len(values) < 2:
        return None
    both = np.stack([values.mean(1), values[:, 0] - values[:, 1]], 1)  # (n, 2): preference, roles
    bands = [max_t(both[:, k : k + 1], seed) for k in range(2)]
    (value, interval), (roles, roles_interval) = (
        (float(band.mean[0]), (float(band.low[0]), float(band.high[0]))) for band in bands
    )
    return Preference(value, interval, roles, roles_interval, len(values))
