"""The lab on pronouns: pairings are fair, and a bias that is there is found."""

from __future__ import annotations

from dataclasses import replace

from heedful.core.lab_report import Claim
from heedful.heads.roles.bias_templates import read
from heedful.heads.roles.pronoun_bias import Bias, HeadBias, MeanBias, Preference
from heedful.labs import bias as lab
from heedful.labs.base.registry import LabRun

STILL = MeanBias(0.0, (-0.01, 0.01), 1.0)
PLACE = MeanBias(-0.2, (-0.25, -0.15), 0.001)
HEAD = HeadBias(0, 0, 0.3, 0.5, STILL, PLACE)
FOUND = Bias(
    "lm",
    27,
    0,
    HEAD,
    (HEAD, replace(HEAD, head=1)),
    0.02,
    Preference(-2.0, (-2.4, -1.6), 0.0, (-0.1, 0.1), 27),
)


def test_everyone_stands_in_one_sentence_as_before() -> None:
    templates = read()
    mixed = lab.paired_anew(templates, 3)
    for name in ("template", "a", "b"):
        assert sorted(getattr(one, name) for one in mixed) == sorted(getattr(one, name) for one in templates)
    assert {(one.a, one.b) for one in mixed} != {(one.a, one.b) for one in templates}
    assert lab.paired_anew(templates, 3) == mixed != lab.paired_anew(templates, 4)


def held(found: Bias) -> list[bool]:
    run = LabRun()
    lab.attention(run, found)
    lab.writing(run, [found])
    return [part.holds for part in run.parts if isinstance(part, Claim)]


def test_claims_hold_for_what_they_say() -> None:
    assert held(FOUND) == [True, True, True, True]


def test_a_head_that_follows_the_stereotype_fails_its_claim() -> None:
    follows = replace(HEAD, head=1, pronoun=MeanBias(0.3, (0.2, 0.4), 0.001))
    assert held(replace(FOUND, heads=(HEAD, follows))) == [True, False, True, True]


def test_a_wide_interval_is_not_taken_for_no_effect() -> None:
    wide = replace(HEAD, head=1, pronoun=MeanBias(0.0, (-0.3, 0.3), 1.0))
    assert held(replace(FOUND, heads=(HEAD, wide))) == [True, False, True, True]


def test_people_that_turn_the_pronoun_fail_the_last_claim() -> None:
    turned = Preference(-2.0, (-2.4, -1.6), 1.5, (1.2, 1.8), 27)
    assert held(replace(FOUND, preference=turned)) == [True, True, True, False]
    fair = Preference(0.0, (-0.4, 0.4), 0.0, (-0.1, 0.1), 27)
    assert held(replace(FOUND, preference=fair))[2:] == [False, False]
