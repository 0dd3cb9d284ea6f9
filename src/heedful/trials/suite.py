"""Where the tests of a trial are held: each function with its options, and what one test leaves to the next.

frozen              trains models freely, which `seeds` compares
seeds               how far these are apart is the scale of the trained adversary
trained adversary   the farthest one that keeps the answers is a guide
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.progress import Progress
from heedful.trials.examples import Cases
from heedful.trials.read_texts import LabelledTexts

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

QUICK = ("correlation", "permutation", "adversary", "uniform")
TRAINED = ("frozen", "seeds", "trained adversary", "guide")
TESTS = (*QUICK, *TRAINED)
SHORT_TRIAL_TEXTS = 20  # texts of the short trial that models trained with a term are put to
Say = Callable[[str, int, int], None]  # what is being done, how much of it, of how much


@dataclass(frozen=True)
class Options:
    """How hard each test looks."""

    permutations: int = 100
    epsilon: float = 0.01  # how far an adversary may move the answer
    starts: int = 5
    climb: int = 160  # steps of the search for an adversary
    seeds: int = 3
    steps: int | None = None  # of training; None: what suits the model's depth
    length: int = 128  # tokens of a text that is trained on
    seed: int = 0


class TrialSuite:
    """One model, its texts, and the tests."""

    def __init__(self, cases: Cases, train: LabelledTexts | None, options: Options, say: Say) -> None:
        self.cases, self.options, self.say = cases, options, say
        self.notes = list(cases.notes)
        self.given = None if train is None else self._unseen(train)

    def _unseen(self, train: LabelledTexts) -> LabelledTexts:
        """Training texts that are not among those to test on."""
        tested = {case.x.text for case in self.cases.cases}
        kept = [k for k, text in enumerate(train.texts) if text not in tested]
        if len(kept) == len(train.texts):
            return train
        gone = len(train.texts) - len(kept)
        self.notes.append(f"{gone} training texts are among those to test on, and were left out")
        texts, *beside = ([column[k] for k in kept] if column is not None else None for column in train)
        return LabelledTexts(texts or [], *beside)

    def hold(self, test: str) -> Any:
        """What a test found: an object with findings() and to_dict()."""
        held: dict[str, Callable[[], Any]] = {
            "correlation": self._correlation,
            "permutation": self._permutation,
            "adversary": self._adversary,
            "uniform": self._uniform,
            "frozen": lambda: self.frozen,
            "seeds": lambda: self.seeds,
            "trained adversary": lambda: self.second,
            "guide": self._guide,
        }
        return held[test]()

    def _told(self, what: str) -> Progress:
        return lambda done, total: self.say(what, done, total)

    # --- on the model as it is -------------------------------------------------------------------------

    def _correlation(self) -> Any:
        from heedful.trials.tests.correlation import correlation

        return correlation(self.cases, seed=self.options.seed, progress=self._told("correlation"))

    def _permutation(self) -> Any:
        from heedful.trials.tests.permutation import permutation

        return permutation(
            self.cases,
            seed=self.options.seed,
            permutations=self.options.permutations,
            progress=self._told("permutation"),
        )

    def _adversary(self) -> Any:
        from heedful.trials.adversary_search import Search
        from heedful.trials.tests.adversary import adversary

        search = Search(self.options.epsilon, self.options.starts, self.options.climb)
        told = self._told("looking for adversaries")
        return adversary(self.cases, seed=self.options.seed, search=search, progress=told)

    def _uniform(self) -> Any:
        from heedful.trials.tests.uniform_attention import uniform_attention

        return uniform_attention(self.cases, seed=self.options.seed, progress=self._told("uniform attention"))

    # --- on models trained like it ---------------------------------------------------------------------

    @cached_property
    def train(self) -> Any:
        from heedful.trials.batches import rows
        from heedful.trials.training import check

        check(self.cases.model)
        if self.given is None or self.given.labels is None:
            raise HeedfulError(
                "there are no texts with labels to train on",
                fix="Give train=(texts, labels), or --train FILE and --label-column NAME",
            )
        return rows(self.cases.model, self.given.texts, self.given.labels, self.options.length)

    @cached_property
    def test(self) -> Any:
        from heedful.trials.batches import of_cases

        return of_cases(self.cases, self.options.length)

    @property
    def _numbers(self) -> tuple[int, ...]:
        return tuple(range(self.options.seed, self.options.seed + self.options.seeds))

    @cached_property
    def _config(self) -> Any:
        from heedful.trials.training import settings

        config = settings(self.cases.model, None)
        return config if self.options.steps is None else replace(config, steps=self.options.steps)

    @property
    def _gentle(self) -> Any:
        """For models that start from the user's weights."""
        from heedful.trials.tests.trained_adversary import GENTLE

        return replace(self._config, lr=self._config.lr * GENTLE)

    @cached_property
    def frozen(self) -> Any:
        from heedful.trials.tests.retrain_uniform import frozen

        told = self._told("training, free and uniform")
        return frozen(self.cases.model, self.train, self.test, self._numbers, self._config, progress=told)

    @cached_property
    def seeds(self) -> Any:
        from heedful.trials.tests.seeds import seeds

        students = self.frozen.students
        return seeds(self.cases.model, self.train, self.test, self._numbers, self._config, students=students)

    @cached_property
    def second(self) -> Any:
        from heedful.trials.tests.trained_adversary import trained_adversary

        config = None if self.options.steps is None else self._gentle
        told = self._told("training adversaries")
        return trained_adversary(
            self.cases.model,
            self.train,
            self.test,
            seeds=self._numbers,
            config=config,
            beside=self.seeds,
            progress=told,
        )

    def _guide(self) -> Any:
        from heedful.trials.tests.guided_classifier import guide

        best = self.second.best() or self.second.mildest()
        others = {} if best is None else {"adversary": best.models[0]}
        told = self._told("training guided networks")
        return guide(self.cases.model, self.train, self.test, self._numbers, others=others, progress=told)

    def improved(self, terms: Sequence[str]) -> Any:
        """Models trained on with each term."""
        from heedful.trials.rationale_data import with_marks
        from heedful.trials.tests.regularised_training import improve

        config = self._gentle
        train, marked = self.train, None
        if self.given is not None and self.given.rationales is not None:
            train, marked = with_marks(self.cases.model, self.given, self.options.length)
        told = self._told("training with terms")
        return improve(
            self.cases.model,
            train,
            self.test,
            marked,
            terms,
            seeds=self._numbers,
            config=config,
            measures=self._short_trial,
            progress=told,
        )

    def _short_trial(self, model: TokenModel) -> dict[str, Floats]:
        """One number a text, of the first few: the tests that need no training, on another model."""
        from heedful.trials.adversary_search import Search
        from heedful.trials.attention_scores import ALL
        from heedful.trials.examples import again
        from heedful.trials.tests.adversary import adversary
        from heedful.trials.tests.correlation import GRADIENTS, LEFT_OUT, correlation

        few = again(self.cases, model, SHORT_TRIAL_TEXTS)
        search = Search(self.options.epsilon, 2, min(60, self.options.climb))
        far = adversary(few, seed=self.options.seed, search=search).distance.mean(1)
        ranks = correlation(few, seed=self.options.seed)
        shown = ranks.pairs[-2][0] if len(ranks.pairs) == 3 else ALL
        tau = {
            f"tau of attention and {to}": ranks.tau[:, ranks.pairs.index((shown, to))]
            for to in (GRADIENTS, LEFT_OUT)
        }
        return {"JSD of an adversary": far} | tau
