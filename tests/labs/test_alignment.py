"""The lab `alignment`: toy languages by hand, methods against the model asked word by word, its claims."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from heedful.core.lab_report import Claim
from heedful.labs import alignment
from heedful.labs.base.registry import LabRun
from heedful.labs.data import toy_language as toy
from heedful.labs.measures import alignment_scores
from heedful.nn import AttentionMaps, Transformer, TransformerConfig, generate

WORDS = toy.language(3)


def test_a_sentence_translated_by_hand() -> None:
    groups = {
        "subject": toy.NounPhrase("dog", 1, "red"),
        "object": toy.NounPhrase("goose", 0, None),
        "place": toy.NounPhrase("king", 0, "old"),
    }
    pair = toy.translate(WORDS, groups, "saw", "near", "today")
    assert " ".join(pair.source) == "the red dogs saw the goose near the old king today"
    s, of = WORDS.stems, [toy.GENDERS[WORDS.gender[noun]] for noun in ("dog", "king")]
    assert pair.target == (
        s["today"],
        s["dog"] + "i",
        s["red"] + of[0],
        s["king"] + "l",
        s["old"] + of[1],
        s["near"],
        s["goose"] + "m",
        s["saw"] + "nt",
    )
    assert pair.links == (10, 2, 1, 9, 8, 6, 5, 3)
    assert pair.forms == (10, 2, 2, 6, 9, 6, 5, 2)
    short = toy.translate(WORDS, groups, "met", None, None)
    assert " ".join(short.source) == "the red dogs met the goose"
    assert (short.links, short.forms) == ((2, 1, 5, 3), (2, 2, 5, 2))


@pytest.mark.parametrize("seed", [5, 29])
def test_every_target_word_is_of_the_stem_it_is_linked_to_and_the_ending_changes_with_its_word(
    seed: int,
) -> None:
    words = toy.language(seed)
    singular = {plural: noun for noun, plural in toy.NOUNS.items()}
    pairs = toy.sentences(words, 60, seed)
    assert len({pair.source for pair in pairs}) == 60
    for pair in pairs:
        for word, link in zip(pair.target, pair.links, strict=True):
            source = pair.source[link]
            assert word.startswith(words.stems[singular.get(source, source)])
        assert len(set(pair.links)) == len(pair.target) == sum(word != toy.THE for word in pair.source)
        assert toy.THE not in {pair.source[i] for i in (*pair.links, *pair.forms)}
    assert len(set(words.stems.values())) == len(words.stems)
    assert len(words.vocabulary) == max(words.vocabulary.values()) + 1
    assert [p.source for p in toy.sentences(toy.language(seed + 1), 60, seed)] == [p.source for p in pairs]
    assert toy.language(seed + 1).stems != words.stems


@pytest.fixture(scope="module")
def model() -> Transformer:
    """Random, with embeddings large enough that words matter."""
    made = Transformer(TransformerConfig(len(WORDS.vocabulary), 24, 2, 2, 16, 24, dropout=0.0), seed=1)
    return made.double().eval()


PAIR = toy.sentences(WORDS, 3, 8)[2]


def test_traces_are_those_of_each_word_alone(model: Transformer) -> None:
    source, target = toy.rows([PAIR], WORDS.vocabulary)
    many = len(PAIR.target)
    traces = alignment_scores.traced(model, source, target, many)
    assert len(traces) == many
    for j, trace in enumerate(traces):
        maps = AttentionMaps([], [], [])
        logit = model(source, target[:, :many], None, None, maps)[0, j, target[0, j + 1]]
        grads = torch.autograd.grad(logit, [*maps.encoder, *maps.decoder, *maps.cross])
        assert trace.output == pytest.approx(float(logit.detach()), abs=1e-10)
        assert trace.readout == tuple(float(i == j) for i in range(many))
        stored = (
            (trace.attentions, trace.grad_attentions),
            (trace.decoder_attentions, trace.grad_decoder_attentions),
            (trace.cross, trace.grad_cross),
        )
        for number, (weights, grad) in enumerate(stored):
            for layer in range(2):
                torch.testing.assert_close(weights[layer], maps[number][layer][0], atol=1e-10, rtol=0)
                torch.testing.assert_close(grad[layer], grads[2 * number + layer][0], atol=1e-10, rtol=0)


def test_removal_is_the_fall_with_one_word_hidden_and_attention_the_row_that_predicts(
    model: Transformer,
) -> None:
    source, target = toy.rows([PAIR], WORDS.vocabulary)
    scores = alignment_scores.explained(model, WORDS, PAIR, np.random.default_rng(0))
    many, long = len(PAIR.target), len(PAIR.source)
    assert {value.shape for value in scores.values()} == {(many, long)}
    with torch.no_grad():
        whole = model(source, target).log_softmax(-1)[0]
        cross = model.attentions(source, target).cross
        for i in range(long):
            seen = torch.ones_like(source)
            seen[0, i] = 0
            less = model(source, target, seen).log_softmax(-1)[0]
            for j in range(many):
                fall = float(whole[j, target[0, j + 1]] - less[j, target[0, j + 1]])
                assert scores[alignment_scores.REMOVAL][j, i] == pytest.approx(fall, abs=1e-9)
                assert scores["attention in layer 2"][j, i] == pytest.approx(
                    float(cross[1][0, :, j, i].mean())
                )
                mean = float(torch.stack(cross)[:, 0, :, j, i].mean())
                assert scores[alignment_scores.MEAN][j, i] == pytest.approx(mean)


def test_measures_of_a_sentence_by_hand() -> None:
    pair = toy.Pair(("a", "b", "c", "d"), ("x", "y"), (2, 0), (2, 1))
    scores = np.array(
        [[0.1, 0.3, 0.9, 0.0], [0.2, 0.9, 0.1, 0.0]]
    )  # x right; y points to the word of its ending
    right, aer, ap, ending = alignment_scores.measured(scores, pair, np.random.default_rng(0))
    assert (right, ap, ending) == (0.5, (1 + 1 / 2) / 2, 1.0)
    assert aer == pytest.approx(1 - (1 + 2) / (2 + 2))
    no_form = toy.Pair(pair.source, pair.target, pair.links, pair.links)
    assert np.isnan(alignment_scores.measured(scores, no_form, np.random.default_rng(0))[3])
    flat = [
        alignment_scores.measured(np.zeros((2, 4)), pair, np.random.default_rng(s))[0] for s in range(400)
    ]
    assert np.mean(flat) == pytest.approx(0.25, abs=0.06)  # four standard errors


def test_exact_is_what_greedy_decoding_writes(model: Transformer) -> None:
    source, _ = toy.rows([PAIR], WORDS.vocabulary)
    after = model.next_logits(source[0])
    written = generate(after, torch.tensor([toy.START]), new_tokens=6)[None]
    assert alignment_scores.exact(model, source, written).tolist() == [True]
    written[0, 3] = (written[0, 3] + 1) % len(WORDS.vocabulary)
    assert alignment_scores.exact(model, source, written).tolist() == [False]


def test_training_stops_when_it_translates_and_repeats_itself() -> None:
    sizes = alignment.AlignmentSizes(100, 20, 5, 1, 2, 16)
    runs = [alignment.trained(4, 0, sizes) for _ in range(2)]
    assert runs[0].steps == alignment.ROUNDS * 2  # two steps teach nothing: the cap ends it
    assert torch.equal(runs[0].model.token.weight, runs[1].model.token.weight)
    assert len(runs[0].test) == 20


GOOD = {
    "mean attention": (0.9, 0.1, 0.9, 0.1),
    "attention-rollout": (0.6, 0.4, 0.7, 0.1),
    "chefer": (0.8, 0.2, 0.9, 0.1),
    "removal": (0.95, 0.025, 0.97, 0.5),
    "diagonal": (0.1, 0.9, 0.3, 0.1),
    "random": (0.12, 0.87, 0.3, 0.12),
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [True, True, True, True]),
        ({"removal": (0.6, 0.4, 0.6, 0.5)}, [False, True, True, True]),  # points to words that know nothing
        ({"mean attention": (0.2, 0.8, 0.4, 0.1)}, [True, False, True, True]),
        ({"chefer": (0.1, 0.9, 0.3, 0.1)}, [True, True, False, True]),
        ({"mean attention": (0.9, 0.1, 0.9, 0.6)}, [True, True, True, False]),
    ],
)
def test_claims_hold_on_numbers_made_to_fit_and_fail_on_others(changes: Any, expected: list[bool]) -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.01, (30, 1))
    found = {name: np.array(means) + noise * [1, -1, 1, 1] for name, means in {**GOOD, **changes}.items()}
    run = LabRun()
    alignment.claim_found(run, found)
    assert [part.holds for part in run.parts if isinstance(part, Claim)] == expected
