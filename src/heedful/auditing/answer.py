"""Which method to heed, from all verdicts of an audit: one answer, for the headline and the page alike.

Only measurements of faithfulness count (metrics that remove words, under each operator): a method that is
steady or short is not thereby right. A measurement in which no method leads says nothing of any and does not
count. Methods are ranked by the share of the others they take part in that they lead, alone or tied: one that
a metric may not judge, because it was fitted by what the metric measures, loses nothing by it. It must take
part in at least half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from heedful.evidence.verdict import ENOUGH, FEW, LITTLE, PROMISE, Verdict
from heedful.notebook import Shown
from heedful.wording import listed

CLEAR = Fraction(1, 2)  # a method that leads in no more than this share does not clearly lead
NONE = "no method clearly leads"


@dataclass(frozen=True)
class AuditVerdict(Shown, Sequence[Verdict]):
    """One verdict a metric and operator, and what they say together; `str()` is all of it."""

    verdicts: tuple[Verdict, ...]
    headline: str
    heed: tuple[str, ...] = ()  # the method that clearly leads, or those that tie; none where none does
    often: str = ""  # leads in 3 of 4

    def __getitem__(self, index: Any) -> Any:
        return self.verdicts[index]

    def __len__(self) -> int:
        return len(self.verdicts)

    def __str__(self) -> str:
        said = [self.headline, *(verdict.words for verdict in self.verdicts)]
        return "\n".join(said + [PROMISE] * self.claims)

    @property
    def claims(self) -> bool:
        """Some verdict says more than that texts are too few."""
        return any(verdict.n >= FEW for verdict in self.verdicts)


def answer(verdicts: Sequence[Verdict], texts: int) -> AuditVerdict:
    counted = [verdict for verdict in verdicts if verdict.faithful]
    told = [verdict for verdict in counted if verdict.n >= FEW]
    if told:
        return _ranked(verdicts, told, texts)
    if counted:
        most = max(verdict.n for verdict in counted)
        said = f"{most} texts are too few to tell methods apart; at least {FEW} are needed."
    else:
        said = "Which method to heed was not measured: no metric asks whether the model does what they say."
    return AuditVerdict(tuple(verdicts), said)


def _ranked(verdicts: Sequence[Verdict], told: Sequence[Verdict], texts: int) -> AuditVerdict:
    led = [verdict for verdict in told if verdict.lead]
    every = Counter(method for verdict in told for method in verdict.methods)
    part = Counter(method for verdict in led for method in verdict.methods)
    leads = Counter(method for verdict in led for method in verdict.lead)
    dull = Counter(method for verdict in told for method in verdict.no_better_than_random)
    share = {method: Fraction(leads[method], part[method]) for method in part}
    able = [method for method in part if 2 * part[method] >= len(led)]
    most = max((share[method] for method in able), default=Fraction(0))
    best = [method for method in able if share[method] == most > 0]
    clear = most > CLEAR and (len(best) == 1 or len(best) < len(able))
    said = [_head(best, clear, leads, part)]
    if rest := [method for method in able if method not in best and leads[method]]:
        after = max(rest, key=lambda method: share[method])
        said.append(f"next is {after}, in {leads[after]} of {part[after]}")
    if led and (idle := len(told) - len(led)):
        are = "it is" if idle == 1 else "they are"
        said.append(f"in {idle} of the {len(told)} no method leads, so {are} not counted")
    if always := [method for method in every if dull[method] == every[method]]:
        said.append(
            f"{listed(always)} {_verb(always, 'is', 'are')} never shown to be better than a random order"
        )
    if few := [method for method in part if method not in able]:
        said.append(f"{listed(few)} {_verb(few, 'takes', 'take')} part in too few to be ranked")
    count = "1 measurement" if len(told) == 1 else f"{len(told)} measurements"
    headline = f"By {count} of faithfulness (metric × operator) on {texts:,} texts, {'; '.join(said)}."
    if (most_texts := max(verdict.n for verdict in told)) < LITTLE:
        headline += f" {most_texts} texts tell little: try {ENOUGH}."
    if not clear:
        return AuditVerdict(tuple(verdicts), headline)
    often = listed(list(dict.fromkeys(f"{leads[method]} of {part[method]}" for method in best)))
    return AuditVerdict(tuple(verdicts), headline, tuple(best), f"{_verb(best, 'leads', 'tie')} in {often}")


def _head(best: Sequence[str], clear: bool, leads: Counter[str], part: Counter[str]) -> str:
    if not best:
        return "no method leads in any"
    often = list(dict.fromkeys((leads[method], part[method]) for method in best))
    first, every = often[0]
    if len(best) == 1:
        said = f"{best[0]} leads in {first} of the {every} measurements it takes part in"
        return f"heed {best[0]}: alone or tied, {said}" if clear else f"{NONE}: at most, {said}"
    if len(often) == 1:
        said = f"{listed(best)} tie, each leading in {first} of the {every} measurements it takes part in"
    else:
        known = [f"{method} in {leads[method]} of {part[method]}" for method in best]
        said = f"{listed(best)} tie, leading in the same share of what they take part in ({', '.join(known)})"
    return said if clear else f"{NONE}: {said}"


def _verb(names: Sequence[str], one: str, more: str) -> str:
    return one if len(names) == 1 else more
