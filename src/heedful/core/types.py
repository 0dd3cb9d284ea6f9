"""The few types everything else speaks: frozen data, no torch.

    text -> Encoded -> (Target) -> Trace -> Attribution -> Comparison

Nothing after `Attribution` needs torch or the model: a saved run opens on a machine without either.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from heedful.core.result import NotebookRepr, StoredResult

if TYPE_CHECKING:
    from torch import Tensor

Floats = npt.NDArray[np.float64]
Span = tuple[int, int]
CONTROL = "random"  # the method that knows nothing, beside which the others stand


@dataclass(frozen=True)
class Encoded(NotebookRepr):
    """A text as the model sees it, with the way back to the characters.

    `offsets[t]` are the characters of `text` that token t came from ((0, 0) for special tokens);
    `words[t]` is the index into `word_spans`, -1 for special tokens; `segments[t]` is the part (of a pair)
    or the turn (of a chat) the token belongs to, -1 for what the template or the tokenizer added.
    """

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    offsets: tuple[Span, ...]
    special: tuple[bool, ...]
    words: tuple[int, ...]
    word_spans: tuple[Span, ...]
    segments: tuple[int, ...]
    type_ids: tuple[int, ...] | None = None  # token_type_ids, for models that want them
    notes: tuple[str, ...] = ()  # what was done to the text that the reader must know (truncation, windows)

    def __len__(self) -> int:
        return len(self.ids)

    def word_text(self, word: int) -> str:
        start, end = self.word_spans[word]
        return self.text[start:end]

    def units(self, unit: str) -> list[list[int]]:
        """Token positions of each removable unit, in reading order; special tokens are never removed."""
        from heedful.modalities.text_units import unit_positions

        return unit_positions(self, unit)


@dataclass(frozen=True)
class Target(NotebookRepr):
    """Which number is explained. `score` maps the model's logits to one scalar a row.

    kind        logits it reads     the number
    class       (n, C)              logit of class `index` (single label)
    label       (n, C)              logit of label `index` (multi-label: no softmax between labels)
    regression  (n, C)              output `index`
    token       (n, V)              logit of token `index` at `position`, or after the tokens `given`
    sequence    (n, L, V)           sum of log-probabilities of the tokens `sequence`
    margin      (n, C) or (n, V)    logit of `index` less the largest other: positive while it is predicted

    `contrast` turns it into "A rather than B": the difference of the two logits. For a sequence that is
    `contrast_sequence`, the difference of the two sums: the model reads every row twice, and the logits are
    (2n, L, V), those with A first; L is the longer of the two.
    """

    kind: str
    index: int = 0
    label: str = ""
    position: int | None = None
    sequence: tuple[int, ...] = ()
    contrast: int | None = None
    contrast_label: str = ""
    given: tuple[int, ...] = ()  # what the model has already written after the text
    contrast_sequence: tuple[int, ...] = ()

    @property
    def contrasted(self) -> bool:
        return self.contrast is not None or bool(self.contrast_sequence)

    @property
    def sides(self) -> tuple[Target, ...]:
        """The sequences whose difference this is; a target that is read once is its own only side."""
        if not self.contrast_sequence:
            return (self,)
        other = Target("sequence", label=self.contrast_label, sequence=self.contrast_sequence)
        return replace(self, contrast_sequence=(), contrast_label=""), other

    @property
    def written(self) -> tuple[int, ...]:
        """Tokens read after the text."""
        return self.sequence[:-1] if self.kind == "sequence" else self.given

    def score(self, logits: Tensor) -> Tensor:
        """(n, C) or (n, V) or (n, L, V) or (2n, L, V) -> (n,)"""
        if self.contrast_sequence:
            (this, that), half = self.sides, len(logits) // 2
            return this.score(logits[:half]) - that.score(logits[half:])
        if self.kind == "sequence":
            logp = logits.log_softmax(-1)  # (n, L, V)
            steps = range(len(self.sequence))
            return logp[:, list(steps), list(self.sequence)].sum(-1)
        chosen = logits[:, self.index]
        if self.kind == "margin":
            others = [i for i in range(logits.shape[1]) if i != self.index]
            best: Any = logits[:, others].max(-1)
            largest: Tensor = getattr(best, "values", best)  # torch gives (values, indices), numpy the values
            return chosen - largest
        return chosen if self.contrast is None else chosen - logits[:, self.contrast]

    @property
    def name(self) -> str:
        label = self.label or f"{self.kind} {self.index}"
        return f"{label} rather than {self.contrast_label}" if self.contrasted else label


@dataclass(frozen=True)
class Trace(NotebookRepr):
    """What one forward and backward of the user's own model shows.

    Q is T for self-attention; a single-query layer (one-layer classifier) has Q = 1.
    `readout[q]` is the share of the answer read at query position q, found from the gradient of the target
    with respect to the last hidden states: all on [CLS], all on the last token, or spread by a mean pool.
    """

    x: Encoded
    target: Target
    output: float
    embeds: Tensor  # (T, d)
    grad_embeds: Tensor  # (T, d)
    attentions: tuple[Tensor, ...] = ()  # one a layer, (H, Q, T)
    grad_attentions: tuple[Tensor, ...] = ()  # one a layer, (H, Q, T)
    readout: tuple[float, ...] = ()  # (Q,)
    hidden: tuple[Tensor, ...] = ()  # (T, d) a layer, on request
    cross: tuple[Tensor, ...] = ()  # encoder-decoders: (H, A, T), A = answer positions
    grad_cross: tuple[Tensor, ...] = ()
    decoder_attentions: tuple[Tensor, ...] = ()  # encoder-decoders: (H, A, A)
    grad_decoder_attentions: tuple[Tensor, ...] = ()
    notes: tuple[str, ...] = ()
    written: Encoded | None = None  # the target's `given`: W tokens that were written before it
    written_embeds: Tensor | None = None  # (W, d)
    grad_written: Tensor | None = None  # (W, d)


@dataclass(frozen=True)
class Cost(NotebookRepr):
    """What an explanation cost. Rows are model inputs: `forwards` asked for, `unique` really run after
    duplicates and remembered rows were taken out."""

    forwards: int = 0
    backwards: int = 0
    unique: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(**{name: value + getattr(other, name) for name, value in asdict(self).items()})

    def __sub__(self, other: Cost) -> Cost:
        return Cost(**{name: value - getattr(other, name) for name, value in asdict(self).items()})


@dataclass(frozen=True)
class Word(NotebookRepr):
    """A word of the text with its score: the sum of its tokens' scores."""

    text: str
    score: float
    stderr: float | None
    start: int
    end: int


@dataclass(frozen=True)
class Written(NotebookRepr):
    """Scores of the tokens the model had already written before the one that is explained.

    An encoder-decoder's start token is none of them. `same_scale` is false where the scores cannot be
    compared with those of the text, so that no share of the two says anything.
    """

    x: Encoded  # what was written, as a text of its own
    scores: Floats  # (W,)
    stderr: Floats | None = None  # (W,)
    same_scale: bool = True

    def __post_init__(self) -> None:
        scores = np.asarray(self.scores, dtype=np.float64)
        if scores.shape != (len(self.x),):
            raise ValueError(f"{scores.shape} scores for {len(self.x)} written tokens")
        object.__setattr__(self, "scores", scores)


@dataclass(frozen=True, repr=False)
class Attribution(StoredResult):
    """One method's answer: signed scores, one a token, with standard errors where the method samples.

    `signed` says what the scores mean: signed scores push towards (+) or away from (-) the target;
    unsigned ones (norms, attention) only say how much, so no sign is ever shown for them.
    `written` scores what the target says was already written; None where nothing was, or the method cannot.
    """

    kind: ClassVar[str] = "attribution"
    store: ClassVar[str] = "heedful.comparisons.run_folder"

    x: Encoded
    target: Target
    scores: Floats  # (T,)
    method: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    stderr: Floats | None = None  # (T,)
    output: float = float("nan")  # f(x)
    base: float | None = None  # f(baseline), for methods that have one
    signed: bool = True
    cost: Cost = Cost()
    notes: tuple[str, ...] = ()
    # removal operators whose rows the method asked for; None: made elsewhere, by what is not known
    fitted_by: tuple[str, ...] | None = ()
    written: Written | None = None

    def __post_init__(self) -> None:
        scores = np.asarray(self.scores, dtype=np.float64)
        if scores.shape != (len(self.x),):
            raise ValueError(f"{self.method or 'explainer'}: {scores.shape} scores for {len(self.x)} tokens")
        object.__setattr__(self, "scores", scores)

    @classmethod
    def over(
        cls,
        x: Encoded,
        written: Encoded | None,
        target: Target,
        scores: Floats,
        stderr: Floats | None = None,
        **more: Any,
    ) -> Attribution:
        """From scores of the text and, behind them, of what was written (None: of the text alone)."""
        if written is None:
            return cls(x, target, scores, stderr=stderr, **more)
        errors = (None, None) if stderr is None else (stderr[: len(x)], stderr[len(x) :])
        behind = Written(written, scores[len(x) :], errors[1])
        return cls(x, target, scores[: len(x)], stderr=errors[0], written=behind, **more)

    def of_written(self) -> Attribution | None:
        """The same answer about what was written, as an attribution of its own."""
        if self.written is None:
            return None
        part = self.written
        return replace(self, x=part.x, scores=part.scores, stderr=part.stderr, written=None, notes=())

    def __repr__(self) -> str:
        strongest = ", ".join(f"{word.text} {word.score:+.3g}" for word in self.top(3))
        return f"<heedful.Attribution {self.method} of {self.target.name!r}: {strongest}>"

    def words(self) -> list[Word]:
        """Word view. A word removed as a whole has its score (and error) spread evenly over its tokens,
        so sums give both back exactly."""
        count = len(self.x.word_spans)
        totals, errors = np.zeros(count), np.zeros(count)
        for position, word in enumerate(self.x.words):
            if word >= 0:
                totals[word] += self.scores[position]
                errors[word] += 0.0 if self.stderr is None else self.stderr[position]
        return [
            Word(
                self.x.word_text(i),
                float(totals[i]),
                None if self.stderr is None else float(errors[i]),
                *self.x.word_spans[i],
            )
            for i in range(count)
        ]

    def top(self, k: int = 5) -> list[Word]:
        """The k words with the largest absolute score, largest first (ties in reading order)."""
        return sorted(self.words(), key=lambda word: -abs(word.score))[:k]

    @property
    def total(self) -> float:
        """Sum of all scores, those of what was written among them: what a complete method splits up."""
        return float(self.scores.sum()) + (0.0 if self.written is None else float(self.written.scores.sum()))

    @property
    def special_mass(self) -> float:
        """Share of the absolute score that sits on special tokens, which the word view leaves out."""
        total = float(np.abs(self.scores).sum())
        return float(np.abs(self.scores)[list(self.x.special)].sum()) / total if total else 0.0

    def to_csv(self) -> str:
        """One line a word: method, word, start, end, score, stderr."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["method", "word", "start", "end", "score", "stderr"])
        for word in self.words():
            error = "" if word.stderr is None else repr(word.stderr)
            writer.writerow([self.method, word.text, word.start, word.end, repr(word.score), error])
        return out.getvalue()


@dataclass(frozen=True)
class Evidence(NotebookRepr):
    """What n texts say about one method by one metric, under one removal operator ("" where none is used)."""

    metric: str
    operator: str
    method: str
    value: float  # means over texts: of the method,
    control: float  # of random scores,
    best: float  # and of the best found
    skill: float  # (value - control) / (best - control): 0 is chance, 1 the best found
    interval: tuple[float, float]  # 95 %, of skill, over texts; (nan, nan) for a single text
    n: int
    chance: tuple[
        float, float
    ]  # the least and the most that random scores reached on a text, means over texts
    circular: bool = False  # the method was fitted by the operator that removes words here
    orders: tuple[float, ...] = ()  # of a single text: the values of the random scores
    better: str = "high"  # or "low": which values are good
    family: str = ""  # the metric's voice in a verdict; "": it has none

    @property
    def beat(self) -> int:
        """Of a single text: how many random orders it beat."""
        up = self.better == "high"
        return sum(bool(self.value > order if up else self.value < order) for order in self.orders)


@dataclass(frozen=True)
class Removal:
    """What the model did when units were really removed by one operator; nan where that row was never run."""

    operator: str
    alone: tuple[float, ...]  # f(x) - f(x less the unit), a unit each
    curves: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)  # (share gone, f)
    band: tuple[tuple[float, float, float], ...] = ()  # of random orders: (share gone, least f, most f)


@dataclass(frozen=True)
class Looked:
    """Where each layer looked from where the answer was read, mean over heads."""

    weights: tuple[tuple[float, ...], ...]  # (layers, units)
    special: tuple[float, ...]  # (layers,) on special tokens
    cross: bool = False  # of an encoder-decoder: from what it writes to what it reads


@dataclass(frozen=True)
class Firing:
    """One feature of a dictionary on this text."""

    feature: int
    effect: float  # f(x) - f(x with it set to zero), measured
    estimate: float  # of the effect, by gradient times activation
    strength: float
    words: tuple[str, ...]  # where it is strongest


@dataclass(frozen=True)
class Fired(NotebookRepr):
    """The strongest features of a dictionary on this text."""

    site: str
    features: tuple[Firing, ...]
    active: int  # features that fire anywhere in the text
    together: float  # effect of removing these at once
    everything: float  # effect of removing all
    band: tuple[float, float]  # 95 % of as many random active features, removed at once, lie between
    control: tuple[float, ...]  # effects of other active features, drawn at random
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inside(NotebookRepr):
    """What a run saw besides scores; see heedful.comparisons.internals."""

    removals: tuple[Removal, ...] = ()
    looked: Looked | None = None
    fired: Fired | None = None


@dataclass(frozen=True, repr=False)
class Comparison(StoredResult, Mapping[str, Attribution]):
    """Several methods on one prediction: a mapping from method name to `Attribution`."""

    kind: ClassVar[str] = "comparison"
    store: ClassVar[str] = "heedful.comparisons.run_folder"

    attributions: tuple[Attribution, ...]
    model: Mapping[str, Any] = field(default_factory=dict)  # name, kind, fingerprint, prediction(_after)
    settings: Mapping[str, Any] = field(default_factory=dict)  # seed, unit, versions: how it was made
    refused: Mapping[str, str] = field(default_factory=dict)  # method -> why it gave nothing
    evidence: tuple[Evidence, ...] = ()  # how far the model does what the methods say, on this text
    inside: Inside = Inside()  # what removing words did, where the model looked, which features fired

    @property
    def verdict(self) -> str:
        """What the evidence of this one text allows to say, in words."""
        little = sensitivity_warning.of_one_text(self.inside.removals, str(self.model.get("kind")))
        units = len(self.x.units(self.settings.get("unit", "word"))) if self.attributions else 0
        return single_text.said(self.evidence, self.attributions, little, units)

    def __getitem__(self, method: str) -> Attribution:
        for attribution in self.attributions:
            if attribution.method == method:
                return attribution
        raise KeyError(f"{method!r} is not in this comparison, which has: {', '.join(self)}")

    def __iter__(self) -> Iterator[str]:
        return (attribution.method for attribution in self.attributions)

    def __len__(self) -> int:
        return len(self.attributions)

    @property
    def x(self) -> Encoded:
        return self.attributions[0].x

    @property
    def target(self) -> Target:
        return self.attributions[0].target

    def input_shares(self) -> dict[str, float | None]:
        """By method, how much of its scores lies on the text, the rest being on what was already written;
        None where the method cannot tell, {} where nothing was written. See
        heedful.comparisons.input_share."""
        return input_shares(self)

    def agreement(self, measure: str = "kendall", k: int = 5) -> tuple[list[str], Floats]:
        """(methods, matrix) of pairwise agreement over words: "kendall", "spearman" or "top-k"."""
        return matrix(self, measure, k)

    def __repr__(self) -> str:
        methods = ", ".join(self)
        return f"<heedful.Comparison of {self.target.name!r} for {self.x.text[:60]!r}: {methods}>"

    def to_csv(self) -> str:
        """One line a method and word, under one header."""
        tables = [attribution.to_csv() for attribution in self.attributions]
        return tables[0] + "".join(table.split("\n", 1)[1] for table in tables[1:])


Progress = Callable[[int, int], None]  # rows done, rows in all


@dataclass(frozen=True)
class Step:
    """Where a run of several methods stands: `heedful.explain(progress=...)` is called with it."""

    method: str
    number: int  # of the method, from 1, in the order they run: cheap ones first
    methods: int
    part: int = 1  # of a text in windows
    parts: int = 1
    done: int = 0  # rows this method has run in this part
    total: int = 0  # the most it may run; a sampled method may stop before

    @property
    def label(self) -> str:
        """method 5 of 18: lime, part 2 of 3"""
        part = f", part {self.part} of {self.parts}" if self.parts > 1 else ""
        return f"method {self.number} of {self.methods}: {self.method}{part}"


Report = Callable[[Step], None]
