"""Gradients integrated along a straight path from a baseline to the text, in embedding space.

    IG_t = sum_i (e_ti - b_ti) * int_0^1 d f / d e_ti (b + a (e - b)) da

The integral is computed by adaptive Simpson quadrature. By the fundamental theorem of calculus the scores sum
to f(e) - f(b), and the same is true for every part of the path. The numerical error of this sum is called the
gap. The part with the largest gap is halved until the gap of the whole path, divided by |f(e) - f(b)|, is
below `tolerance`. No point is computed twice. This handles the bends of ReLUs, where Gauss-Legendre steps on
the whole path need hundreds of points. No fixed number of steps is right for all models: the gap is always
shown, and a note says "not converged" if it is too large.

e contains the text and the tokens that were written before, at the embeddings through which the model reads
them. The path starts where both are replaced by the baseline; the scores of both together sum to f(e) - f(b).

Cost: one forward + backward per point. Needs: gradients. Sundararajan, Taly & Yan 2017.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.input import NEVER
from heedful.core.registry import explainer
from heedful.engine.question import Question

PANELS = 4  # stretches at first
FINEST = 2.0**-20  # of the path: a jump that is narrower has no place, and no more looks find it
CANCEL = 30  # tolerances that the gaps of single stretches may sum to, signs aside
Panel = tuple[float, float]


@explainer(
    "integrated-gradients",
    needs={"gradients"},
    cite="Sundararajan, Taly & Yan 2017",
    properties=("linear", "complete", "unused", "symmetric"),
    rows=lambda x, target, p: (2 * PANELS + 1, max(2 * PANELS + 1, p["most"])),
)
def integrated_gradients(
    q: Question, *, baseline: str | None = None, tolerance: float = 1e-3, most: int = 512
) -> Attribution:
    """Gradients integrated from a baseline to the input: the scores sum to the change of the output.

    Limitations: The scores depend on the baseline, and the path goes through embeddings that are not
    words. Where the output changes steeply along the path, scores are large and of both signs, although
    the sum is correct.
    """
    baseline = baseline or q.model.baselines[0]
    text, base = q.embeds(), baseline_embeds(q, baseline)  # (T + W, d)

    def look(shares: list[float]) -> tuple[Floats, Floats]:
        steps = torch.tensor(shares, dtype=text.dtype, device=text.device)[:, None, None]
        values, grads = q.gradients(base + steps * (text - base))  # (n,), (n, T + W, d)
        slopes = q.by_atom(lambda part: part.sum(-1), (text - base).double() * grads.double())
        if not (bool(values.isfinite().all()) and bool(slopes.isfinite().all())):
            what = "a gradient between the baseline and the input is not a finite number"
            raise HeedfulError(what, "the weights are very large", "Use another method")
        return values.cpu().numpy(), slopes.cpu().numpy()

    path = Path(look)
    scores, gap = path.integrated(tolerance, most if q.left is None else min(most, q.left))
    return q.answer(
        scores,
        over=q.x.atom,
        params={"baseline": baseline},
        output=path.values[1.0],
        base=path.values[0.0],
        notes=_notes(gap, path.rise, tolerance, len(path.values), bool(torch.equal(text, base))),
    )


class Path:
    """The path from the baseline (0) to the text (1), with f and its slope per token at the computed
    points."""

    def __init__(self, look: Callable[[list[float]], tuple[Floats, Floats]]) -> None:
        self.look = look
        self.values: dict[float, float] = {}
        self.slopes: dict[float, Floats] = {}  # sum_i (e_ti - b_ti) df/de_ti, (T,)
        self.rise = 0.0

    def integrated(self, tolerance: float, most: int) -> tuple[Floats, float]:
        """(scores (T,), completeness gap), with at most `most` looks or the first few."""
        panels = [(k / PANELS, (k + 1) / PANELS) for k in range(PANELS)]
        while True:
            values = self._simpson(panels)  # (P, T)
            self.rise = self.values[1.0] - self.values[0.0]
            left = np.array([self.values[b] - self.values[a] for a, b in panels]) - values.sum(1)
            gap = abs(float(left.sum()))
            wide = [k for k, (a, b) in enumerate(panels) if b - a > FINEST]
            near = gap <= tolerance * abs(self.rise)
            even = np.abs(left).sum() <= CANCEL * tolerance * abs(self.rise)
            if (near and even) or len(self.values) + 2 > most or not wide:
                return values.sum(0), gap
            worst = max(wide, key=lambda k: abs(left[k]))
            panels[worst : worst + 1] = _halves(panels[worst])

    def _simpson(self, panels: list[Panel]) -> Floats:
        places = sorted({p for a, b in panels for p in (a, (a + b) / 2, b)} - self.values.keys())
        if places:
            values, slopes = self.look(places)
            self.values |= zip(places, values.tolist(), strict=True)
            self.slopes |= zip(places, slopes, strict=True)
        at = self.slopes
        return np.array([(b - a) / 6 * (at[a] + 4 * at[(a + b) / 2] + at[b]) for a, b in panels])


def _halves(panel: Panel) -> list[Panel]:
    a, b = panel
    return [(a, (a + b) / 2), ((a + b) / 2, b)]


def _notes(gap: float, rise: float, tolerance: float, nodes: int, same: bool) -> tuple[str, ...]:
    if same:
        return ("the baseline equals the input: every score is zero",)
    share = gap / abs(rise) if rise else np.inf
    text = f"completeness gap {gap:.2g} ({share:.1e} of the change) at {nodes} nodes"
    return (text if gap <= tolerance * abs(rise) else f"not converged: {text}",)


def baseline_embeds(q: Question, baseline: str) -> Float[Tensor, "N d"]:
    """(T + W, d) with every token replaced, special ones left: the point the path starts from."""
    if baseline not in q.model.baselines:
        known = ", ".join(q.model.baselines)
        raise HeedfulError(f"unknown baseline {baseline!r}", fix=f"Use one of: {known}")
    if baseline != "zero":
        return q.embeds_without(baseline)
    embeds = q.embeds().clone()
    owner = [part.units(part.atom).owner for part in (q.x, q.written) if part is not None]
    embeds[torch.from_numpy(np.concatenate(owner) != NEVER)] = 0
    return embeds
