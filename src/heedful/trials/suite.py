"""What the tests of a trial share: model, texts, settings, training data, and the results of one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from heedful.core.errors import HeedfulError
from heedful.core.progress import Progress, Report, counting
from heedful.io.datasets.labelled_texts import LabelledTexts
from heedful.nn.train import TrainConfig
from heedful.trials.batches import PaddedTexts, of_cases, rows
from heedful.trials.examples import Cases
from heedful.trials.facts import TERMS, TRAINING_TEXTS
from heedful.trials.registry import trial_tests
from heedful.trials.training import FINE_TUNE_LR_FACTOR, check, settings

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class TrialSettings:
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

    def __init__(
        self,
        cases: Cases,
        train: LabelledTexts | None,
        terms: Sequence[str],
        settings: TrialSettings,
        report: Report | None,
    ) -> None:
        self.cases, self.terms, self.settings, self._report = cases, terms, settings, report
        self.notes = list(cases.notes)
        self.given = None if train is None else self._unseen(train)
        self._results: dict[str, Any] = {}

    def _unseen(self, train: LabelledTexts) -> LabelledTexts:
        """Training texts that are not among those to test on."""
        tested = {case.x.text for case in self.cases.cases}
        kept = [k for k, text in enumerate(train.texts) if text not in tested]
        if len(kept) == len(train.texts):
            return train
        gone = len(train.texts) - len(kept)
        self.notes.append(f"{gone} training texts are among those to test on, and were left out")
        texts, labels, rationales = (
            None if column is None else [column[k] for k in kept]
            for column in (train.texts, train.labels, train.rationales)
        )
        return LabelledTexts(texts or [], labels, rationales, train.left)

    def result(self, name: str) -> Any:
        """What a test returned; it runs once, whoever needs it."""
        if name not in self._results:
            test = trial_tests()[name]
            if why := self.cases.model.lacks(test.facts.needs - {TRAINING_TEXTS, TERMS}):
                raise HeedfulError(f"the test {name} cannot run", why)
            self._results[name] = test.run(self)
        return self._results[name]

    def progress(self, what: str) -> Progress:
        return counting(self._report, what)

    # --- for tests that train models like it -----------------------------------------------------------

    @cached_property
    def train(self) -> PaddedTexts:
        check(self.cases.model)
        if self.given is None or self.given.labels is None:
            raise HeedfulError(
                "there are no texts with labels to train on",
                fix="Give train=(texts, labels), or --train FILE and --label-column NAME",
            )
        return rows(self.cases.model, self.given.texts, self.given.labels, self.settings.length)

    @cached_property
    def test(self) -> PaddedTexts:
        return of_cases(self.cases, self.settings.length)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(range(self.settings.seed, self.settings.seed + self.settings.seeds))

    @cached_property
    def config(self) -> TrainConfig:
        config = settings(self.cases.model, None)
        return config if self.settings.steps is None else replace(config, steps=self.settings.steps)

    @property
    def gentle_config(self) -> TrainConfig:
        """For models that start from the user's weights."""
        return replace(self.config, lr=self.config.lr * FINE_TUNE_LR_FACTOR)
