"""Mails, their two classifiers, and users who pick one: oracles, and what must fail when something is off."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import heedful
from heedful.core.lab_report import Claim
from heedful.labs import choose_the_classifier as lab
from heedful.labs.base.registry import LabRun
from heedful.labs.data.mails import Mail, mails
from heedful.labs.human_study import study_trials
from heedful.labs.human_study.study_trials import (
    ExplanationWord,
    Round,
    ShownMail,
    explained,
    fit,
    out_of_place,
    play,
    top,
    words,
)

MAIL = Mail(1, "List-Id:\nSender:", "win\nwin money by list today")


def shown(*outside: float) -> ShownMail:
    return ShownMail(MAIL, "spam", tuple(ExplanationWord("w", 1.0, each) for each in outside))


def made(leaky: float, clean: float, held: tuple[float, float] = (0.9, 0.8)) -> Round:
    pair = (shown(leaky),), (shown(clean),)
    return Round(held, (0.4, 0.9), {"lime": pair, "random": pair[::-1]})


# --- mails -------------------------------------------------------------------------------------------------


def test_mails_come_in_parts_that_share_nothing_and_hold_no_address() -> None:
    parts = [mails(part) for part in ("train", "held", "test")]
    bodies = [mail.body for part in parts for mail in part]
    assert len(bodies) == len(set(bodies)) > 1000
    for part in parts:
        assert 0.4 < np.mean([mail.label for mail in part]) < 0.6
    whole = "\n".join(mail.text for part in parts for mail in part)
    assert not re.search(r"\S@\S|https?://|www\.|\d{3}[-. ]\d{3}[-. ]\d{4}", whole, re.I)
    heads = "\n".join(mail.head for part in parts for mail in part)
    assert not re.search(r"^(From|To|Cc|Received|Message-Id|Return-Path):", heads, re.M | re.I)


# --- classifiers -------------------------------------------------------------------------------------------


def test_the_fit_is_where_the_gradient_vanishes() -> None:
    texts = ["a b", "a c", "b c", "a", "b b d", "d a"]
    labels = [1, 1, 0, 1, 0, 0]
    found = fit(texts, labels, decay=0.1)
    assert set(found.columns) == {"a", "b", "c", "d"}
    x = np.array([[float(word in words(text)) for word in found.columns] for text in texts])
    chance = 1 / (1 + np.exp(-(x @ found.weights + found.bias)))
    slope = x.T @ (chance - labels) / len(labels) + 0.1 * found.weights
    np.testing.assert_allclose(slope, 0, atol=1e-4)
    np.testing.assert_allclose((chance - labels).mean(), 0, atol=1e-4)
    np.testing.assert_allclose(found.scores(texts), x @ found.weights + found.bias)


def test_words_in_one_mail_only_are_not_learnt() -> None:
    found = fit(["often rare", "often", "sometimes often", "sometimes"], [1, 0, 1, 0])
    assert set(found.columns) == {"often", "sometimes"}
    assert found.accuracy(["often"], [int(found.scores(["often"])[0] > 0)]) == 1.0


def test_explanations_name_the_words_with_weight_and_where_they_stand() -> None:
    columns = {"list": 0, "money": 1, "sender": 2}
    classifier = study_trials.Classifier(columns, np.array([-1.0, 5.0, 0.5]), 0.0)
    found = explained(classifier, MAIL, "lime", 0)
    assert found.said == "spam"
    assert [word.text for word in found.words[:3]] == ["money", "list", "sender"]
    assert [word.outside for word in found.words[:3]] == [0.0, 0.5, 1.0]
    assert found.words[1].score < 0 < found.words[0].score
    np.testing.assert_allclose(
        found.words[0].score, 2 * 5.0 / 2, rtol=0.05
    )  # of log-odds 5: half to each label


def test_a_word_is_one_wherever_it_stands() -> None:
    attribution = heedful.explain(lambda texts: [[len(text), 0.0] for text in texts], MAIL.text, ["random"])[
        "random"
    ]
    found = top(attribution, len(MAIL.head), 100)
    names = [word.text for word in found]
    assert len(names) == len(set(names))
    total = sum(word.score for word in attribution.words() if re.search(r"\w", word.text))
    assert sum(word.score for word in found) == pytest.approx(total)


def test_a_round_shows_what_it_says() -> None:
    found = play(np.random.default_rng(0), 2)
    held = {mail.body for mail in mails("held")}
    assert {each.mail.body for side in found.shown["lime"] for each in side} <= held
    assert found.held[0] > found.held[1]
    assert found.test[0] < found.test[1]
    assert found.right == 1
    again = play(np.random.default_rng(0), 2)
    assert again.shown["lime"] == found.shown["lime"]


# --- users -------------------------------------------------------------------------------------------------


def test_users_pick_by_what_they_see() -> None:
    assert lab.by_explanations(made(0.5, 0.1), 1) == 1.0
    assert lab.by_explanations(made(0.1, 0.5), 1) == 0.0
    assert lab.by_explanations(made(0.3, 0.3), 1) == 0.5
    assert lab.by_random_words(made(0.5, 0.1), 1) == 0.0
    assert lab.by_accuracy(made(0.5, 0.1), 1) == 0.0
    assert lab.by_accuracy(made(0.5, 0.1, (0.8, 0.9)), 1) == 1.0
    assert out_of_place([shown(1.0, 0.0), shown(0.5, 0.5)]) == 0.5


def test_a_torn_user_tosses_a_coin() -> None:
    torn = lab.picks([made(0.3, 0.3)] * 400, lab.by_explanations, 1, seed=0)
    assert stats.binomtest(int(torn.sum()), 400).pvalue > 0.001
    assert lab.picks([made(0.5, 0.1)] * 5, lab.by_explanations, 1, 0).all()


def told(given: list[Round]) -> list[bool]:
    run = LabRun(fast=True)
    lab.tell_accuracy(run, given)
    lab.tell_picks(run, given, 1)
    return [part.holds for part in run.parts if isinstance(part, Claim)]


def test_claims_hold_where_they_should_and_fail_where_not() -> None:
    rng = np.random.default_rng(0)
    good = [replace(made(0.5, 0.1), held=(0.95 + rng.normal(0, 0.01), 0.9)) for _ in range(12)]
    assert told(good) == [True] * 4
    blind = [replace(each, shown=made(0.1, 0.5).shown) for each in good]
    assert told(blind) == [True, True, False, True]
    honest = [replace(each, held=(0.8 + rng.normal(0, 0.01), 0.9)) for each in good]
    assert told(honest) == [False, True, True, False]
    harmless = [replace(each, test=(0.9 + rng.normal(0, 0.01), 0.9)) for each in good]
    assert told(harmless)[1] is False
