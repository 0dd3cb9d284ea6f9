"""Measured roles of heads on real weights: the numbers of docs/heads.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.heads.roles.bias_templates import read as read_templates
from heedful.heads.roles.conllu import read as read_sentences
from heedful.heads.roles.induction import induction
from heedful.heads.roles.pronoun_bias import bias
from heedful.heads.roles.syntax import syntax
from heedful.models.zoo import resolve

pytestmark = pytest.mark.real
FILE = Path(__file__).parents[2] / "docs" / "examples" / "sentences.conllu"


@pytest.fixture(scope="module")
def smollm2() -> Any:
    resolve.pull("smollm2")
    return heedful.load("zoo:smollm2")


def test_smollm2_has_induction_heads_and_its_loss_falls(smollm2: Any) -> None:
    found = induction(smollm2)
    leaders = [(head.layer, head.head) for head in found.named("induction")][:5]
    assert leaders == [(18, 6), (17, 3), (17, 4), (17, 5), (18, 7)]
    assert len(found.named("induction")) == 14
    assert [(head.layer, head.head) for head in found.named("duplicate")] == [(14, 3), (8, 0), (15, 6)]
    assert found.named("induction")[0].induction.value == pytest.approx(0.897, abs=0.002)
    assert found.loss.change == pytest.approx(-11.51, abs=0.02)


def test_smollm2_ties_pronouns_to_occupations(smollm2: Any) -> None:
    found = bias(smollm2, read_templates())
    moved = found.moved()
    assert (len(moved), sum(head.pronoun.value > 0 for head in moved)) == (47, 38)
    assert (moved[0].layer, moved[0].head) == (9, 3)
    assert moved[0].pronoun.value == pytest.approx(-0.440, abs=0.002)
    assert found.preference is not None
    assert found.preference.roles == pytest.approx(-0.79, abs=0.01)


def test_minilm_knows_the_noun_of_a_determiner() -> None:
    resolve.pull("minilm")
    found = syntax(heedful.load("zoo:minilm"), read_sentences(FILE), least=10)
    rows = {row.relation: row for row in found.relations}
    det = rows["det"]
    assert (det.layer, det.head, det.direction, det.agreed) == (2, 8, "to", True)
    assert (det.crossed.accuracy, det.crossed.baseline) == pytest.approx((60 / 65, 42 / 65))
    assert det.crossed.interval[0] > 0.1
    assert rows["nmod:poss"].naive.accuracy > rows["nmod:poss"].crossed.accuracy
