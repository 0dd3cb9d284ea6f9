"""Do attention weights say which words matter? They guide a network that reads each token alone.

    h_t = tanh(W E[x_t] + b)         each token alone, nothing of its neighbours            (T, d)
                                     E is learnt, or given (`vectors`) and stays
    logits = V sum_t g_t h_t + c     g: the guide's weights, which sum to one               (C,)

    uniform    g_t = 1/T
    trained    g = softmax(u . h), learnt along
    model      attention of the user's model: mean over layers and heads of the rows the answer is read from
    shuffled   the same weights, shuffled within each text: the control
    adversary  attention of a trained adversary

Weights that help a network which never saw the model they come from are about the words, not about that
model's other parts. Guides are fixed; only the network learns. Cost: one small fit a guide and seed.

Wiegreffe & Pinter 2019, section 3.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from heedful.core.phrases import listed
from heedful.core.progress import Progress
from heedful.models.adapter import TokenModel
from heedful.nn.train import TrainConfig, fit
from heedful.trials.batches import PaddedTexts
from heedful.trials.formatting import above, row_interval
from heedful.trials.registry import Rows, TrialWords, trial_test
from heedful.trials.rows import TrialRow
from heedful.trials.tests.retrain_uniform import ACCURACY, SCORES, Judged, Labels, judge
from heedful.trials.tests.seeds import majority
from heedful.trials.training import maps, place_of, read

if TYPE_CHECKING:
    from heedful.trials.suite import TrialSuite

WIDTH = 128
BUDGET = TrainConfig(steps=300, batch=32, lr=3e-3, warmup=20, weight_decay=0.05, progress=False)
UNIFORM, TRAINED, MODEL, SHUFFLED = "uniform", "trained", "model", "shuffled"  # guides, and keys of rows
OVER = {
    SHUFFLED: "model over shuffled",
    UNIFORM: "model over uniform",
}  # keys: how much more the model's help
Weights = tuple[Tensor, Tensor]  # (n, L) of the training texts, (m, L') of the others; zero on padding


class TokenWise(nn.Module):
    """The guided network; without a guide it learns its own weights."""

    def __init__(self, vocabulary: int, classes: int, seed: int, vectors: Tensor | None = None) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.token = nn.Embedding(vocabulary, WIDTH)
            self.affine = nn.Linear(WIDTH if vectors is None else vectors.shape[1], WIDTH)
            self.scores = nn.Linear(WIDTH, 1)
            self.out = nn.Linear(WIDTH, classes)
        with torch.no_grad():
            self.token.weight.mul_(0.1)  # a table drawn N(0, 1) learns a few thousand texts by heart
        if vectors is not None:
            self.token = nn.Embedding.from_pretrained(vectors, freeze=True)  # type: ignore[no-untyped-call]

    def forward(self, ids: Tensor, mask: Tensor, guide: Tensor | None) -> Tensor:
        """(B, C)"""
        h = self.affine(self.token(ids)).tanh()  # (B, T, d)
        if guide is None:
            guide = self.scores(h)[..., 0].masked_fill(mask == 0, -torch.inf).softmax(-1)
        logits: Tensor = self.out(torch.einsum("bt,btd->bd", guide, h))
        return logits


@dataclass(frozen=True, eq=False)
class Guided:
    """The results of the guided networks: one network per guide and seed."""

    seeds: tuple[int, ...]
    judged: Mapping[str, Judged]
    majority: float

    def findings(self) -> list[TrialRow]:
        rows, k = [], len(self.seeds)
        for score in SCORES:
            least = self.judged[SHUFFLED].value(score)[0], "the model's weights, shuffled"
            none = 0.0, "weights that do not matter"
            lines = [(name, name, own.value(score), least) for name, own in self.judged.items()]
            for other in (UNIFORM, SHUFFLED):
                gap = self.judged[MODEL].over(self.judged[other], score)
                lines.append((OVER[other], f"model rather than {other}", gap, none))
            for key, name, value, control in lines:
                what = f"{score}, guide: {name}"
                rows.append(
                    TrialRow(
                        test="guide",
                        what=what,
                        value=value[0],
                        interval=value[1],
                        control=control[0],
                        control_name=control[1],
                        n=k,
                        unit=score,
                        key=key,
                        variant=score,
                    )
                )
        return rows

    def to_dict(self) -> dict[str, Any]:
        scores = {name: {s: own.scores(s).tolist() for s in SCORES} for name, own in self.judged.items()}
        return {"seeds": list(self.seeds), "majority": self.majority, "scores": scores}


def guide(
    model: TokenModel,
    train: PaddedTexts,
    test: PaddedTexts,
    seeds: Sequence[int] = (0, 1, 2),
    config: TrainConfig = BUDGET,
    *,
    others: Mapping[str, Any] | None = None,
    vectors: Tensor | None = None,
    progress: Progress | None = None,
) -> Guided:
    """Train one network per guide and seed.

    others    further guides: a mapping from a name to a model whose attention is used, such as {"adversary":
    ...} vectors   (V, d) word vectors, one row per token id; if given, the network uses them and does not
    train them
    """
    own = weights_of(model, train), weights_of(model, test)
    guides: dict[str, Weights | None] = {UNIFORM: (_even(train), _even(test)), TRAINED: None, MODEL: own}
    guides |= {
        name: (weights_of(each, train), weights_of(each, test)) for name, each in (others or {}).items()
    }
    judged, done, total = {}, 0, (len(guides) + 1) * len(seeds)
    for name in (*guides, SHUFFLED):
        labels = []
        for seed in seeds:
            if name == SHUFFLED:  # another order for every seed
                drawn: Weights | None = (shuffled(own[0], train, seed), shuffled(own[1], test, seed))
            else:
                drawn = guides[name]
            labels.append(train_guided(model, train, test, drawn, seed, config, vectors))
            done += 1
            if progress is not None:
                progress(done, total)
        judged[name] = judge(labels, test, model)
    return Guided(tuple(seeds), judged, majority(train, test))


def train_guided(
    model: TokenModel,
    train: PaddedTexts,
    test: PaddedTexts,
    guides: Weights | None,
    seed: int,
    config: TrainConfig,
    vectors: Tensor | None = None,
) -> Labels:
    """(m,) what a network says of the test texts, trained with these weights (None: with its own)."""
    vocabulary = int(max(train.ids.max(), test.ids.max())) + 1
    network = TokenWise(vocabulary, len(model.labels), seed, vectors)
    rng = torch.Generator().manual_seed(seed)

    def loss(step: int) -> Tensor:
        pick = torch.randint(len(train), (config.batch,), generator=rng)
        logits = _logits(network, train, pick, None if guides is None else guides[0])
        return nn.functional.cross_entropy(logits, train.labels[pick])

    fit(network, loss, replace(config, seed=seed))
    with torch.no_grad():
        parts = [
            _logits(network, test, pick, None if guides is None else guides[1])
            for pick in torch.split(torch.arange(len(test)), 256)
        ]
    labels: Labels = torch.cat(parts).argmax(-1).numpy()
    return labels


def _logits(network: TokenWise, data: PaddedTexts, pick: Tensor, guides: Tensor | None) -> Tensor:
    inputs = data.pick(pick)
    logits: Tensor = network(
        inputs.ids, inputs.mask, None if guides is None else guides[pick, : inputs.ids.shape[1]]
    )
    return logits


def weights_of(model: TokenModel, data: PaddedTexts) -> Tensor:
    """(n, L): what a model attends to, zero on padding."""
    place, done = place_of(model, data), 0
    weights = torch.zeros(data.ids.shape)
    for passed in maps(model, data):
        rows = read(passed, place).mean((1, 2))  # (B, T)
        weights[done : done + len(rows), : rows.shape[1]] = rows
        done += len(rows)
    return weights


def shuffled(weights: Tensor, data: PaddedTexts, seed: int) -> Tensor:
    """(n, L): each text's weights in another order of its own tokens."""
    rng = torch.Generator().manual_seed(seed)
    keys = torch.rand(weights.shape, generator=rng).masked_fill(data.mask == 0, 2.0)  # padding stays last
    return weights.gather(1, keys.argsort(1))


def _even(data: PaddedTexts) -> Tensor:
    mask = data.mask.float()
    return mask / mask.sum(1, keepdim=True)


# --- in the trial ----------------------------------------------------------------------------------------


def _showed(rows: Rows, _: Rows) -> str:
    by_key = {row.key: row for row in rows if row.variant == ACCURACY}
    shown = [f"{key} {row_interval(row)}" for key, row in by_key.items() if key not in OVER.values()]
    gaps = {name: by_key[key] for name, key in OVER.items() if key in by_key}
    better = [name for name, gap in gaps.items() if above(gap.interval[0], 0.0)]
    text = "This model's weights do not clearly help more than shuffled or uniform ones."
    if better:
        text = f"This model's weights help more than {listed(better)} ones."
    return f"{text} Accuracy of a network that reads each token alone, by its weights: {listed(shown)}."


@trial_test(
    "guide",
    title="Do the attention weights help a network without attention?",
    needs={"attentions", "edits", "training texts"},
    cite="Wiegreffe & Pinter 2019",
    order=8,
    words=TrialWords(_showed, axes=dict.fromkeys(SCORES, "higher: the weights help more")),
)
def _run(suite: TrialSuite) -> Guided:
    """A network without attention reads each token separately and takes a weighted average. The weights are
    uniform, learnt, the model's or an adversary's.

    Control: the model's weights shuffled within each text

    Cost: one small fit per guide and seed

    Not shown: that the model uses the words so: only that its weights carry something about the words.
    """
    adversaries = suite.result("trained adversary")
    best = adversaries.best() or adversaries.mildest()
    others = {} if best is None else {"adversary": best.models[0]}
    progress = suite.progress("training guided networks")
    model = suite.cases.model
    return guide(model, suite.train, suite.test, suite.seeds, others=others, progress=progress)
