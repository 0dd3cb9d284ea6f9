"""Heads against dependencies: planted maps, brute force, chance, and honest numbers for the best of many."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heedful.core.errors import HeedfulError
from heedful.heads.roles.conllu import Sentence, parse, read
from heedful.heads.roles.syntax import (
    ALL,
    OFFSETS,
    Aligned,
    SentenceCounts,
    align,
    between_units,
    count,
    guesses,
    summarise,
    syntax,
)
from heedful.modalities.text import TextInput

FILE = Path(__file__).parents[2] / "docs" / "examples" / "sentences.conllu"


def sentence(*words: tuple[str, int, str], joined: tuple[int, ...] = ()) -> Sentence:
    """FORM, HEAD, DEPREL; a word whose number is in `joined` has no space after it."""
    lines = [
        f"{i}\t{form}\t_\t_\t_\t_\t{head}\t{rel}\t_\t{'SpaceAfter=No' if i in joined else '_'}"
        for i, (form, head, rel) in enumerate(words, 1)
    ]
    return parse("\n".join(lines) + "\n\n")[0]


def encoded(text: str, *offsets: tuple[int, int]) -> TextInput:
    """Tokens at these characters, between two special ones."""
    spans = ((0, 0), *offsets, (0, 0))
    special = tuple(start == end for start, end in spans)
    n = len(spans)
    return TextInput(text, tuple(range(n)), ("t",) * n, spans, special, (-1,) * n, (), (0,) * n)


CAT = sentence(("the", 2, "det"), ("cat", 3, "nsubj"), ("sat", 0, "root"), (".", 3, "punct"), joined=(3,))


# --- alignment -------------------------------------------------------------------------------------


def test_tokens_are_gathered_by_the_treebanks_words() -> None:
    x = encoded(CAT.text, (0, 3), (3, 5), (5, 7), (7, 11), (11, 12))  # the| c|at| sat|.
    found = align(CAT, x)
    assert found.units == ((1,), (2, 3), (4,), (5,))
    assert found.arcs == ((0, 1, "det"), (1, 2, "nsubj"))  # root and punct are not asked for
    assert found.dropped == 0


def test_a_token_over_two_words_makes_them_one() -> None:
    x = encoded(CAT.text, (0, 3), (4, 9), (9, 12))  # the|cat s|at.
    found = align(CAT, x)
    assert found.units == ((1,), (2, 3))
    assert found.arcs == ((0, 1, "det"),)
    assert found.dropped == 1  # cat -> sat


def test_words_of_a_multiword_token_share_it() -> None:
    rows = ["1-2\tdon't\t" + "_\t" * 7 + "_", "1\tdo\t_\t_\t_\t_\t3\taux\t_\t_"]
    rows += ["2\tn't\t_\t_\t_\t_\t1\tadvmod\t_\t_", "3\tgo\t_\t_\t_\t_\t0\troot\t_\t_"]
    (dont,) = parse("\n".join(rows) + "\n\n")
    found = align(dont, encoded(dont.text, (0, 2), (2, 5), (6, 8)))
    assert found.units == ((1, 2), (3,))
    assert (found.arcs, found.dropped) == (((0, 1, "aux"),), 1)


def test_a_word_without_a_token_is_left_out() -> None:
    found = align(CAT, encoded(CAT.text, (4, 7), (8, 11)))
    assert found.units == ((1,), (2,))
    assert (found.arcs, found.dropped) == (((0, 1, "nsubj"),), 1)


def test_subtypes_of_punct_and_root_are_left_out_and_others_kept() -> None:
    found = sentence(("a", 3, "nsubj:pass"), ("(", 3, "punct:side"), ("b", 0, "root"))
    assert align(found, encoded(found.text, (0, 1), (2, 3), (4, 5))).arcs == ((0, 2, "nsubj:pass"),)


# --- maps between words, guesses -------------------------------------------------------------------


def test_sum_to_mean_from_by_loops() -> None:
    maps = np.random.default_rng(0).random((2, 3, 5, 5), dtype=np.float32)
    units = [(1,), (2, 4)]
    found = between_units(maps, units)
    for i, rows in enumerate(units):
        for j, columns in enumerate(units):
            expected = np.mean([sum(maps[1, 2, r, c] for c in columns) for r in rows])
            assert found[1, 2, i, j] == pytest.approx(expected, rel=1e-6)


def test_guesses_leave_out_oneself_and_what_nobody_looks_at() -> None:
    words = np.array([[0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.6, 0.3, 0.1]])[None, None]
    assert guesses(words)[0, 0].tolist() == [[2, 0, 0], [2, 2, 0]]  # to; from, where 0 and 1 tie at first
    causal = np.array([[1.0, 0, 0], [0.2, 0.8, 0], [0.3, 0.4, 0.3]])[None, None]
    assert guesses(causal)[0, 0].tolist() == [[-1, 0, 1], [2, 2, -1]]


def planted(arcs: list[tuple[int, int, str]], follows: str, units: int, seed: int) -> np.ndarray[Any, Any]:
    """(2, 2, U, U) random maps; head (1, 0) looks from every word of the relation at its head,
    (0, 1) from the head at the word."""
    maps = np.random.default_rng(seed).random((2, 2, units, units)).astype(np.float32)
    for own, head, relation in arcs:
        if relation == follows:
            maps[1, 0, own, head] = maps[0, 1, head, own] = 2
    return maps


def trees(number: int, units: int, seed: int = 1) -> list[Aligned]:
    """Random trees with one token a word; every second arc a det."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(number):
        arcs = []
        for own in range(units - 1):
            head = int(rng.choice([w for w in range(units) if w != own]))
            arcs.append((own, head, "det" if own % 2 else "obj"))
        found.append(Aligned(tuple((t,) for t in range(units)), tuple(arcs), 0))
    return found


def gathered(aligned: list[Aligned], follows: str = "det") -> SentenceCounts:
    names = (ALL, "det", "obj")
    each = [
        count(planted(list(a.arcs), follows, len(a.units), seed), a, names) for seed, a in enumerate(aligned)
    ]
    right, fixed, asked = (np.stack([c[k] for c in each]) for k in range(3))
    chance = asked / np.array([[len(a.units) - 1] for a in aligned])
    return SentenceCounts(names, right, fixed, asked, chance, (2, 2))


def test_a_planted_head_is_found_and_exact() -> None:
    found = summarise(gathered(trees(40, 9)), "toy", least=10, seed=0)
    assert [row.relation for row in found.relations] == [ALL, "det", "obj"]
    det = found.relations[1]
    assert (det.n, det.naive.accuracy, det.crossed.accuracy, det.agreed) == (160, 1.0, 1.0, True)
    assert found.accuracy["det"][1, 0, 0] == 1.0  # to the head
    assert found.accuracy["det"][0, 1, 1] == 1.0  # from the head
    assert det.naive.interval[0] > 0.5
    # every other head, direction and relation stays near one in eight
    others = [found.accuracy["det"][0, 0], found.accuracy["det"][1, 1], *found.accuracy["obj"].reshape(-1, 2)]
    assert np.max(others) < 0.25
    assert det.chance == pytest.approx(1 / 8)


def test_where_nothing_is_planted_the_crossed_number_stays_at_chance() -> None:
    """Few sentences, many heads: the naive best is far above chance, the crossed one is not."""
    rng = np.random.default_rng(7)
    asked = np.full((24, 1), 4)
    rows = []
    for seed in range(40):
        right = rng.binomial(4, 0.125, (24, 400, 1))
        fixed = rng.binomial(4, 0.125, (24, len(OFFSETS), 1))
        counts = SentenceCounts((ALL,), right, fixed, asked, asked / 8, (10, 20))
        rows += summarise(counts, "toy", least=10, seed=seed).relations
    assert np.mean([row.naive.accuracy for row in rows]) > 0.2
    # 40 times 96 words: a standard error of 0.005
    assert np.mean([row.crossed.accuracy for row in rows]) == pytest.approx(0.125, abs=0.02)
    assert sum(row.crossed.interval[0] > 0 for row in rows) <= 5  # about one is expected
    assert not any(row.agreed for row in rows)


def test_the_offset_baseline_equals_brute_force() -> None:
    aligned = trees(30, 8)
    found = summarise(gathered(aligned), "toy", least=10, seed=0)
    for row in found.relations:
        arcs = [arc for a in aligned for arc in a.arcs if row.relation in (ALL, arc[2])]
        shares = {o: np.mean([head - own == o for own, head, _ in arcs]) for o in range(-5, 6) if o}
        best = max(shares, key=lambda o: shares[o])
        assert row.naive.baseline == pytest.approx(shares[best])
        assert shares[row.offset] == shares[best]
        assert row.n == len(arcs)


def test_an_offset_head_gains_nothing() -> None:
    """A head that looks one word back, in sentences whose heads are one word back, equals the baseline."""
    arcs = tuple((own, own - 1, "x") for own in range(1, 5))
    maps = np.zeros((1, 1, 5, 5), dtype=np.float32)
    maps[0, 0, range(1, 5), range(4)] = 1
    right, fixed, asked = count(maps, Aligned(tuple((t,) for t in range(5)), arcs, 0), (ALL,))
    assert right[0, 0] == asked[0] == fixed[OFFSETS.index(-1), 0] == 4
    six = [np.stack([part] * 6) for part in (right, fixed, asked)]
    (row,) = summarise(SentenceCounts((ALL,), *six, np.ones((6, 1)), (1, 1)), "toy", 1, 0).relations
    assert (row.offset, row.crossed.gain, row.crossed.interval) == (-1, 0.0, (0.0, 0.0))


def test_crossed_is_choosing_on_one_half_by_hand() -> None:
    rng = np.random.default_rng(0)
    right, fixed = rng.binomial(5, 0.3, (12, 40, 1)), rng.binomial(5, 0.3, (12, len(OFFSETS), 1))
    counts = SentenceCounts((ALL,), right, fixed, np.full((12, 1), 5), np.ones((12, 1)), (4, 5))
    (row,) = summarise(counts, "toy", least=1, seed=4).relations
    halves = np.random.default_rng(4).permutation(12) % 2
    found = []
    for each in (right, fixed):
        hits = 0
        for half in (0, 1):
            best = each[halves == half, :, 0].sum(0).argmax()
            hits += each[halves != half, best, 0].sum()
        found.append(hits / 60)
    assert (row.crossed.accuracy, row.crossed.baseline) == pytest.approx(tuple(found))
    assert row.crossed.gain == pytest.approx(found[0] - found[1])
    assert row.naive.accuracy == right.sum(0).max() / 60


def test_rare_relations_are_left_out() -> None:
    counts = gathered(trees(5, 6))  # 25 arcs, 10 of them det
    assert [r.relation for r in summarise(counts, "toy", 11, 0).relations] == [ALL, "obj"]
    with pytest.raises(HeedfulError, match="no relation has 100 examples"):
        summarise(counts, "toy", 100, 0)


# --- whole models ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_accuracy_by_hand_from_the_models_own_maps(shared: Callable[[str], Any], name: str) -> None:
    family = shared(name)
    sentences = read(FILE)[:8]
    found = syntax(family.model, sentences, least=5)
    hits = asked = 0
    for one in sentences:
        x = family.model.encode(one.text)
        maps = family.model.backend.attention_only(_inputs(family, x)).attentions[1][0, 2].detach().numpy()
        for word in one.words:
            if word.relation in ("root", "punct"):
                continue
            own, head = word.surface, one.words[word.head].surface
            mass = [_mean_to(maps, x, one.spans[own], span) for span in one.spans]
            mass[own] = -1
            hits += int(np.argmax(mass)) == head and max(mass) > 0
            asked += 1
    assert found.relations[0].n == asked
    assert found.accuracy[ALL][1, 2, 0] == pytest.approx(hits / asked)


def _inputs(family: Any, x: Any) -> Any:
    import torch

    from heedful.models.backend import Inputs

    ids = torch.tensor([x.ids])
    answer = torch.tensor([[0]]) if family.name == "t5" else None
    return Inputs(ids, torch.ones_like(ids), answer=answer)


def _mean_to(maps: Any, x: Any, own: tuple[int, int], other: tuple[int, int]) -> float:
    def tokens(span: tuple[int, int]) -> list[int]:
        letters = set(range(*span))
        return [t for t, s in enumerate(x.offsets) if not x.special[t] and letters & set(range(*s))]

    return float(np.mean([maps[r, tokens(other)].sum() for r in tokens(own)]))


def test_long_sentences_are_left_out_and_said(shared: Callable[[str], Any]) -> None:
    words = [("cat", 0, "root"), *(("dog", 1, "conj") for _ in range(70))]
    found = syntax(shared("bert").model, [*read(FILE)[:6], sentence(*words)], least=5)
    assert found.sentences == 6
    assert any("longer than the model reads: 1" in note for note in found.notes)
    assert any("fewer than 100 examples" in note for note in found.notes)


def test_an_encoder_without_a_head_will_do(tokenizer_of: Callable[[str], Any]) -> None:
    import transformers

    import heedful

    config = transformers.BertConfig(
        vocab_size=220, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    model = heedful.load((transformers.BertModel(config).eval(), tokenizer_of("wordpiece")))
    assert model.kind == "encoder"
    assert syntax(model, read(FILE)[:6], least=5).accuracy[ALL].shape == (1, 2, 2)


def test_a_model_with_one_query_for_all_is_refused() -> None:
    import heedful

    with pytest.raises(HeedfulError, match="do not look at each other"):
        syntax(heedful.load("zoo:one-layer"), read(FILE)[:6], least=5)


def test_too_little_to_ask(shared: Callable[[str], Any]) -> None:
    with pytest.raises(HeedfulError, match="at least four sentences"):
        syntax(shared("bert").model, read(FILE)[:3])


def test_tables_and_dictionaries_are_plain(shared: Callable[[str], Any]) -> None:
    import json

    found = syntax(shared("bert").model, read(FILE)[:8], least=5, seed=2)
    rows = found.table()
    assert rows[0]["relation"] == ALL
    assert rows[1]["crossed_low"] == found.relations[1].crossed.interval[0]
    again = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert again["relations"][0]["n"] == found.relations[0].n
    assert np.shape(again["accuracy"][ALL]) == (2, 4, 2)
