"""What is lost when attention is made uniform?

    uniform attention at inference, in each layer alone and in all layers, nothing trained again
    with labels: accuracy and mean ln p of the label, the model's own beside it;
    always: how often the prediction stays, and how far the answer moves

Controls: accuracy of always saying the most frequent label; how often the most frequent prediction agrees;
the change when all words are deleted (only special tokens are read), and when all layers' weights are put in
a random order. What stays without attention's choice did not need it, in this trained model; whether a
model trained without it would do as well is another test's question.

Cost: L + 3 + 10 forwards a text. Needs: attentions, edits. Wiegreffe & Pinter, Attention is not not
Explanation, EMNLP 2019 (there with training).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.cost import Cost
from heedful.core.numbers import percent
from heedful.core.progress import Progress
from heedful.io.json_codec import to_jsonable
from heedful.models.attention_hooks import AttentionState, uniform
from heedful.stats.intervals import nanmean_of, share_of
from heedful.trials.attention_scores import ALL, layer_name, shown
from heedful.trials.examples import Cases, Example, largest_change
from heedful.trials.formatting import NOTHING, decimals, row_interval, unmoved
from heedful.trials.forward import Change, ask, without
from heedful.trials.registry import Rows, TrialWords, trial_test
from heedful.trials.rows import BESIDE_ALL_WORDS, TrialRow, of_key
from heedful.trials.tests.permutation import shuffling

if TYPE_CHECKING:
    from heedful.trials.suite import TrialSuite

ORDERS = 10  # random orders a text
KEPT, ACCURACY = "prediction kept", "accuracy"  # keys of rows
OWN_ACCURACY = "accuracy of the model as it is"
NEARLY_ALL = 0.9  # of the predictions


@dataclass(frozen=True, eq=False)
class UniformAttention:
    """Texts (N) and places (P): each layer, then all layers where there are several."""

    places: tuple[str, ...]
    change: Floats  # (N, P)
    agrees: Floats  # (N, P) 1: the prediction stays; nan for regressions, which predict no label
    correct: Floats  # (N, P) 1: uniform attention says the label; nan where no label is known
    logp: Floats  # (N, P) ln p of the label
    own_correct: Floats  # (N,) the same of the model as it is
    own_logp: Floats  # (N,)
    labels: npt.NDArray[np.int64]  # (N,) -1: unknown
    predictions: npt.NDArray[np.int64]  # (N,) -1: none
    empty: Floats  # (N,) change when all words are deleted
    shuffled: Floats  # (N,) median change when all layers' weights are in a random order
    cost: Cost

    def findings(self) -> list[TrialRow]:
        rows = []
        for place in range(len(self.places)):
            rows.append(self._changed(place))
            rows += self._share(KEPT, self.agrees[:, place], self.predictions, place)
            rows += self._share(ACCURACY, self.correct[:, place], self.labels, place)
        return rows

    def _changed(self, place: int) -> TrialRow:
        value, interval = nanmean_of(
            self.change[:, place], (0.0, largest_change(self.change)), len(self.places)
        )
        extra = {"weights in a random order, all layers": float(self.shuffled.mean())}
        return TrialRow(
            test="uniform",
            what=f"uniform attention, change of the answer, {self.places[place]}",
            value=value,
            interval=interval,
            control=float(self.empty.mean()),
            control_name="all words deleted",
            n=len(self.change),
            unit="change of the answer",
            extra=extra,
            key=BESIDE_ALL_WORDS,
            variant=self.places[place],
        )

    def _share(self, key: str, hits: Floats, among: npt.NDArray[np.int64], place: int) -> list[TrialRow]:
        """A share of texts, beside what always naming the most frequent would give; none if unknown."""
        real = np.isfinite(hits)
        if not real.any():
            return []
        value, interval = share_of(hits[real] > 0, len(self.places))
        extra = {}
        if key == ACCURACY:
            extra = {
                OWN_ACCURACY: float(self.own_correct[real].mean()),
                "ln p of the label": float(self.logp[real, place].mean()),
                "ln p of the label, model as it is": float(self.own_logp[real].mean()),
            }
        return [
            TrialRow(
                test="uniform",
                what=f"uniform attention, {key}, {self.places[place]}",
                value=value,
                interval=interval,
                control=float(np.unique(among[real], return_counts=True)[1].max() / real.sum()),
                control_name=f"most frequent {'label' if key == ACCURACY else 'prediction'}",
                n=int(real.sum()),
                unit=key,
                extra=extra,
                key=key,
                variant=self.places[place],
            )
        ]

    def to_dict(self) -> dict[str, Any]:
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return {name: to_jsonable(value.tolist()) for name, value in arrays.items()} | {
            "places": list(self.places),
            "cost": asdict(self.cost),
            "findings": [finding.to_dict() for finding in self.findings()],
        }


def uniform_attention(cases: Cases, *, seed: int = 0, progress: Progress | None = None) -> UniformAttention:
    """Every text under uniform attention, layer by layer and in all layers."""
    before = cases.model.spent
    places: tuple[str, ...] = ()
    columns: list[tuple[Any, ...]] = []
    for number, case in enumerate(cases.cases):
        attended = shown(cases, case)
        layers = len(attended.layers)
        places = tuple(map(layer_name, range(layers))) + ((ALL,) if layers > 1 else ())
        rng = torch.Generator().manual_seed(seed + number)
        with torch.no_grad():
            answers = ask(cases, case, len(places) + 1, _uniform(attended.stack, layers, len(places)))
            mixed = ask(cases, case, ORDERS, shuffling(attended.stack, set(range(layers)), rng, ORDERS))
            moved = cases.apart(answers[:-1], answers[-1:])  # the last copy is the model as it is
            median = float(cases.apart(mixed, answers[-1:]).quantile(0.5))
        columns.append((moved.cpu().numpy(), *_judged(cases.model.kind, case, answers.cpu()), median))
        if progress is not None:
            progress(number + 1, len(cases))
    change, agrees, correct, logp, prediction, shuffled = (np.array(c) for c in zip(*columns, strict=True))
    labels = np.array([-1 if case.label is None else case.label for case in cases.cases])
    words = [[t for unit in case.x.units("word") for t in unit] for case in cases.cases]
    empty = without(cases, list(enumerate(words)))
    return UniformAttention(
        places=places,
        change=change,
        agrees=agrees,
        correct=correct[:, :-1],
        logp=logp[:, :-1],
        own_correct=correct[:, -1],
        own_logp=logp[:, -1],
        labels=labels,
        predictions=prediction,
        empty=empty,
        shuffled=shuffled,
        cost=cases.model.spent - before,
    )


def _uniform(stack: str, layers: int, copies: int) -> Change:
    """Copy l with uniform attention in layer l, the last but one in all layers, the last as it is."""

    def change(state: AttentionState, here: slice) -> AttentionState:
        if state.site.stack != stack:
            return state
        wanted = {state.site.layer} | ({layers} if copies > layers else set())
        level = torch.tensor([i in wanted for i in range(here.start, here.stop)], device=state.weights.device)
        return state.reweighed(torch.where(level[:, None, None, None], uniform(state), state.weights))

    return change


def _judged(kind: str, case: Example, answers: Tensor) -> tuple[Floats, Floats, Floats, int]:
    """Of answers (P + 1, C): agreement with the last (P,), correctness and ln p of the label (P + 1,), and
    the model's own prediction. A multi-label answer agrees when every label stays on its side of 1/2."""
    known = len(answers)
    nothing = np.full(known, np.nan)
    if kind == "regression":
        return nothing[1:], nothing, nothing, -1
    predicted = answers > 0.5 if kind == "multi-label" else answers.argmax(-1, keepdim=True)
    agrees = (predicted == predicted[-1:]).all(-1).double().numpy()[:-1]
    own = (
        sum(int(yes) << i for i, yes in enumerate(predicted[-1]))
        if kind == "multi-label"
        else int(predicted[-1])
    )
    if case.label is None:
        return agrees, nothing, nothing, own
    right = predicted[:, case.label] if kind == "multi-label" else predicted[:, 0] == case.label
    logp = answers[:, case.label].clamp_min(1e-300).log()
    return agrees, right.double().numpy(), logp.numpy(), own


# --- in the trial ----------------------------------------------------------------------------------------


def _showed(rows: Rows, _: Rows) -> str:
    """The last place is all layers, or the only one."""
    changed = of_key(rows, BESIDE_ALL_WORDS)[-1]
    text = f"Uniform attention moves the answer by {row_interval(changed)}. "
    text += f"Deleting all words moves it by {decimals(changed.control)}."
    if unmoved(changed):
        return f"{text} {NOTHING}"
    for row in of_key(rows, KEPT)[-1:]:
        text += f" The prediction stays the same in {percent(row.value)} of texts."
    for row in of_key(rows, ACCURACY)[-1:]:
        own, now = decimals(row.extra[OWN_ACCURACY]), decimals(row.value)
        moved = f"goes from {own} to {now}" if own != now else f"stays at {own}"
        text += f" The accuracy {moved} (most frequent label: {decimals(row.control)})."
    return text


def _against(rows: Rows, _: Rows) -> str:
    kept = of_key(rows, KEPT)[-1:]
    return (
        "Uniform attention keeps nearly all predictions." if kept and kept[0].interval[0] > NEARLY_ALL else ""
    )


@trial_test(
    "uniform",
    title="Does the model still work with uniform attention?",
    needs={"attentions", "edits"},
    cite="Wiegreffe & Pinter 2019",
    order=4,
    words=TrialWords(
        _showed,
        against=_against,
        axes={
            "change of the answer": "higher: attention matters more",
            KEPT: "higher: attention matters less",
            ACCURACY: "higher: attention matters less",
        },
    ),
)
def _run(suite: TrialSuite) -> UniformAttention:
    """The model runs with uniform attention. It is not retrained.

    Control: the model with all words deleted; the most frequent label

    Cost: L + 14 forwards

    Not shown: whether a model trained without attention would do as well: this one was trained with it.
    """
    progress = suite.progress("uniform attention")
    return uniform_attention(suite.cases, seed=suite.settings.seed, progress=progress)
