"""The operator "swap": what is drawn, and what the models read with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.cli.main import main
from heedful.core.target import Target
from heedful.modalities.operators import InputRow
from heedful.modalities.swap_words import WORDS, current_words, replacements, swap_words, words_of
from heedful.modalities.text import TextInput
from heedful.models.load import load
from heedful.models.passes import RowCache

TEXT = "the food is not bad, really"
ZOO = ("zoo:sentiment", "zoo:one-layer", "zoo:lm")
UNITS = ["good", "food", "at", "a", "low", "price", "here", "now"]


def read(
    model: Any, x: TextInput, target: Target, gone: list[list[int]], unit: str = "word"
) -> list[InputRow]:
    """What the model is given when these units are swapped, one row each."""
    keep = np.ones((len(gone), len(x.units(unit))), dtype=bool)
    for row, out in zip(keep, gone, strict=True):
        row[out] = False
    found = []
    for row in keep:
        memory = RowCache()
        assert np.isfinite(model.values(x, target, row[None], "swap", unit, cache=memory)).all()
        found += memory
    return found


def target_of(model: Any) -> Target:
    return Target("token", index=5) if model.kind == "causal-lm" else Target("class", index=1)


def own_ids(model: Any, text: str) -> tuple[int, ...]:
    return tuple(model.tokenizer(text, add_special_tokens=False)["input_ids"])


# --- words --------------------------------------------------------------------------------------------------


def test_the_embedded_words_are_many_and_different() -> None:
    assert 250 <= len(WORDS) == len(set(WORDS)) <= 400
    assert {"the", "house", "said", "small"} <= set(WORDS)
    assert not {"not", "no", "never", "good", "bad", "great", "terrible"} & set(WORDS)


def test_draws_are_the_same_in_every_process() -> None:
    code = "from heedful.modalities.swap_words import replacements\n"
    code += f"print(' '.join(replacements('some text', {UNITS})))"
    told = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
        )
        told.add(tuple(ran.stdout.split()))
    assert told == {tuple(replacements("some text", UNITS))}


def test_draws_depend_on_text_unit_and_seed() -> None:
    same = ["good"] * 200
    first = replacements("some text", same)
    assert replacements("some text", same) == first
    assert len(set(first)) > 50, "each unit has its own draw"
    for other in (replacements("some texts", same), replacements("some text", same, seed=1)):
        assert sum(a == b for a, b in zip(first, other, strict=True)) < 20
    assert replacements("some text", same[:3]) == first[:3], "units that come later change nothing"


def test_as_many_words_as_the_unit_has() -> None:
    counts = [len(new.split()) for new in replacements("t", ["one", "two words", "", " ", "and now three"])]
    assert counts == [1, 2, 1, 1, 3]


def test_no_word_stands_for_itself_where_there_is_another() -> None:
    with swap_words(["Good", "bad"]):
        for text in map(str, range(20)):
            new = replacements(text, ["good", "GOOD", "bad", "bad,", "good bad"])
            assert new == ["bad", "bad", "Good", "Good", "bad Good"]
    with swap_words(["good"]):
        assert replacements("t", ["Good", "bad"]) == ["good", "good"]


def test_the_list_is_that_of_the_nearest_block() -> None:
    assert current_words() == WORDS
    with swap_words(["x", " y ", " "]):
        assert current_words() == ("x", "y")
        with swap_words([]):
            assert current_words() == WORDS
        with suppress(KeyError), swap_words(["z"]):
            assert replacements("t", ["a"]) == ["z"]
            raise KeyError
        assert set(replacements("t", UNITS)) == {"x", "y"}
    assert current_words() == WORDS


def test_words_of_texts_keep_their_frequencies() -> None:
    texts = ["the cat, the dog!", "the 42 mice don't; 7a"]
    every = words_of(texts)
    assert Counter(every) == Counter(["the"] * 3 + ["cat", "dog", "mice", "don't", "7a"])
    assert words_of(texts, seed=1) != every, "the order is drawn, too"
    assert Counter(words_of(texts, seed=1)) == Counter(every)
    many = ["common " * 9 + "rare"] * 1000
    found = Counter(words_of(many, most=1000))
    assert sum(found.values()) == 1000
    assert 60 < found["rare"] < 140, "a tenth, give or take four standard errors"
    assert words_of(many, most=1000) == words_of(many, most=1000)
    assert words_of(many, most=1000) != words_of(many, most=1000, seed=1)
    assert len(words_of(["a b c"] * 10, most=7)) == 7
    assert max(Counter(words_of(["a b c"], most=500)).values()) == 1, "no word is drawn twice"
    assert words_of([]) == words_of(["42 !"]) == ()


# --- tokens -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ZOO)
def test_the_ids_of_another_word_stand_there_and_all_else_stays(name: str) -> None:
    model = load(name)
    x = model.encode(TEXT)
    groups = x.units("word")
    with swap_words(["house"]):
        rows = read(model, x, target_of(model), [[d] for d in range(len(groups))])
    spaced = own_ids(model, " house")
    for d, (row, group) in enumerate(zip(rows, groups, strict=True)):
        new = own_ids(model, "house") if d == 0 else spaced
        assert row.ids == (*x.ids[: group[0]], *new, *x.ids[group[-1] + 1 :])
        assert row.type_ids is None or len(row.type_ids) == len(row.ids)
        assert (row.hidden, row.blank) == ((), ())


@pytest.mark.parametrize("name", ZOO)
def test_all_rows_of_a_text_agree_about_a_unit(name: str) -> None:
    model = load(name)
    x = model.encode(TEXT)
    alone, others, again, whole = read(model, x, target_of(model), [[3], [3, 5], [3], [*range(7)]])
    first, last = x.units("word")[3][0], x.units("word")[3][-1]
    new = alone.ids[first : len(alone) - (len(x) - last - 1)]
    assert new
    assert new != x.ids[first : last + 1]
    assert others.ids[: first + len(new)] == alone.ids[: first + len(new)]
    assert others != alone
    assert again == alone
    drawn = replacements(x.text, [x.word_text(i) for i in range(7)])
    said = model.tokenizer.decode([i for i in whole.ids if i not in model.tokenizer.all_special_ids])
    assert said.lower().split() == [word.lower() for word in drawn], "no unit keeps its word"


@pytest.mark.parametrize("name", ["zoo:sentiment", "zoo:one-layer"])
def test_the_value_is_that_of_the_text_with_the_other_word(name: str) -> None:
    model = load(name)
    target = target_of(model)
    x, other = model.encode(TEXT), model.encode("the food is not house, really")
    keep = np.ones((1, 7), dtype=bool)
    keep[0, 4] = False
    with swap_words(["house"]):
        found = model.values(x, target, keep, "swap")
    expected = model.values(other, target, np.ones((1, 7), dtype=bool))
    assert found == pytest.approx(expected, abs=1e-5)
    assert found != pytest.approx(model.values(x, target, np.ones((1, 7), dtype=bool)), abs=1e-3)


def test_tokens_from_the_targets_position_on_are_not_read() -> None:
    model = load("zoo:lm")
    x = model.encode(TEXT)
    groups = x.units("word")
    stop = groups[3][0] + 1
    with swap_words(["house"]):
        rows = read(model, x, Target("token", index=5, position=stop), [[1], [5], [3]])
    new = own_ids(model, " house")
    assert len(new) > 1
    assert rows[0].ids == (*x.ids[: groups[1][0]], *new, *x.ids[groups[1][-1] + 1 : stop])
    assert rows[1].ids == x.ids[:stop], "what comes later is not there to be swapped"
    assert rows[2].ids == (*x.ids[: stop - 1], *new)


def test_type_ids_of_a_pair_follow() -> None:
    model = load("zoo:sentiment")
    x = model.encode(("the food", "is not bad"))
    assert x.type_ids is not None
    groups = x.units("word")
    with swap_words(["extraordinariness"]):
        new = own_ids(model, "extraordinariness")
        first, second = read(model, x, target_of(model), [[1], [2]])
    assert len(new) > 1
    for row, group in ((first, groups[1]), (second, groups[2])):
        assert row.ids == (*x.ids[: group[0]], *new, *x.ids[group[-1] + 1 :])
        own = x.type_ids[group[0]]
        assert row.type_ids == (*x.type_ids[: group[0]], *[own] * len(new), *x.type_ids[group[-1] + 1 :])
    assert {x.type_ids[groups[1][0]], x.type_ids[groups[2][0]]} == {0, 1}, "or the types tell nothing"


@pytest.mark.parametrize("unit", ["token", "sentence"])
def test_other_units(unit: str) -> None:
    model = load("zoo:lm")
    x = model.encode("It was really good. So we went home")
    groups = x.units(unit)
    with swap_words(["house"]):
        rows = read(model, x, target_of(model), [[1], [0]], unit)
    new = own_ids(model, " house" * (1 if unit == "token" else 4))
    assert rows[0].ids == (*x.ids[: groups[1][0]], *new, *x.ids[groups[1][-1] + 1 :])
    begun = own_ids(model, "house" if unit == "token" else "house house house house")
    assert rows[1].ids == (*begun, *x.ids[groups[0][-1] + 1 :])


def test_a_line_break_that_is_part_of_the_unit_goes_with_it() -> None:
    model = load("zoo:lm")
    x = model.encode("bad.\nSo good")
    word = next(i for i in range(len(x.word_spans)) if x.word_text(i) == "So")
    group = x.units("word")[word]
    assert x.text[slice(*x.offsets[group[0]])] == "\n"
    with swap_words(["house"]):
        (row,) = read(model, x, target_of(model), [[word]])
    assert model.tokenizer.decode(list(row.ids)) == "bad. house good"


def test_words_of_the_list_that_a_model_cannot_read_are_passed_over() -> None:
    model = load("zoo:sentiment")
    x = model.encode(TEXT)
    groups = [[d] for d in range(7)]
    unknown = model.tokenizer.unk_token_id
    assert own_ids(model, "𪚥") == (unknown,)
    house = own_ids(model, "house")
    for words in (["𪚥", "house"], ["[SEP]", "house"], ["house", "[MASK]", "𪚥"]):
        with swap_words(words):
            rows = read(model, x, target_of(model), groups)
        for row, group in zip(rows, x.units("word"), strict=True):
            assert row.ids[group[0] : group[0] + 1] == house
            assert len(row) == len(x) - len(group) + 1
    with swap_words(["food", "𪚥"]):  # its own word is still better than none that can be read
        assert read(model, x, target_of(model), [[1]])[0].ids == x.ids
    with swap_words(["𪚥"]):
        assert unknown in read(model, x, target_of(model), [[1]])[0].ids


@pytest.mark.parametrize("name", ZOO)
def test_rows_never_outgrow_the_window(name: str) -> None:
    model = load(name)
    x = model.encode("the " * 600, long="truncate")
    assert len(x) == model.window
    groups = x.units("word")
    with swap_words(["don't"]):
        new = own_ids(model, " don't")
        one, every = read(model, x, target_of(model), [[3], [*range(len(groups))]])
    assert len(new) > 1
    assert (len(one), len(every)) == (model.window, model.window)
    place = groups[3][0]
    assert one.ids == (*x.ids[:place], new[0], *x.ids[place + 1 :])
    assert every.ids[place] == new[0], "all rows agree"


def test_a_continuation_needs_its_room_too() -> None:
    model = load("zoo:lm")
    x = model.encode("the " * 20)
    d = len(x.units("word"))
    written = x.ids[:1] * (model.window - len(x) - 3)
    with swap_words(["don't"]):
        (free,) = read(model, x, target_of(model), [[*range(d)]])
        (tight,) = read(model, x, Target("sequence", sequence=written), [[*range(d)]])
    assert len(x) + 10 < len(free) <= model.window
    assert len(tight) == len(x)


# --- functions ----------------------------------------------------------------------------------------------


def asked(text: str, gone: list[int], unit: str = "word") -> str:
    """What a function reads in place of the text."""
    seen: list[str] = []

    def function(texts: list[str]) -> list[float]:
        seen.extend(texts)
        return [float(len(one)) for one in texts]

    model = load(function)
    x = model.encode(text)
    keep = np.ones((1, len(x.units(unit))), dtype=bool)
    keep[0, gone] = False
    seen.clear()
    model.values(x, Target("regression"), keep, "swap", unit)
    return seen[-1]


def test_a_function_reads_another_word() -> None:
    text = "Well-known food, (really) good."
    with swap_words(["house"]):
        assert asked(text, [3]) == "Well-known house, (really) good."
        assert asked(text, [0]) == "house-known food, (really) good."
        assert asked(text, [1]) == "Well house known food, (really) good.", "neighbours stay words"
        assert asked(text, [4]) == "Well-known food house (really) good."
        assert asked(text, [5]) == "Well-known food, house really) good."
        assert asked(text, [3, 4, 9]) == "Well-known house house (really) good house"
        assert asked("a b. c d e.", [1], "sentence") == "a b. house house house"
        assert asked("a b. c d e.", [0], "sentence") == "house house c d e."
        assert asked("wait!!", [1, 2]) == "wait house house"
    drawn = replacements(text, ["Well", "-", "known", "food"])
    assert asked(text, [3]) == f"Well-known {drawn[3]}, (really) good."


def test_functions_offer_it_last_and_tokens_after_delete() -> None:
    assert load(lambda texts: [0.0 for _ in texts]).operators == ("delete", "mask", "swap")
    for name in ZOO:
        offered = load(name).operators
        assert offered[offered.index("delete") + 1] == "swap"
        assert offered[0] != "swap"


# --- methods ------------------------------------------------------------------------------------------------


def test_methods_explain_with_it() -> None:
    model = load("zoo:sentiment")
    params = {"operator": "swap"}
    found = heedful.explain(model, TEXT, ["occlusion"], params={"occlusion": params}, target="positive")
    x, target = found.x, found.target
    values = model.values(x, target, np.concatenate([np.ones((1, 7), bool), ~np.eye(7, dtype=bool)]), "swap")
    scores = [word.score for word in found["occlusion"].words()]
    np.testing.assert_allclose(scores, values[0] - values[1:], atol=1e-5)
    assert found["occlusion"].fitted_by == ("swap",)
    with swap_words(["house"]):
        other = heedful.explain(model, TEXT, ["occlusion"], params={"occlusion": params}, target="positive")
    assert [word.score for word in other["occlusion"].words()] != scores


def test_the_command_line_takes_it(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--method", "occlusion", "--param", "occlusion.operator=swap", "--no-evidence", "--json"]
    assert main(["explain", TEXT, "--model", "zoo:sentiment", *options]) == 0
    told = json.loads(capsys.readouterr().out)["attributions"][0]
    assert (told["method"], told["params"]["operator"], told["fitted_by"]) == ("occlusion", "swap", ["swap"])


def test_windows_keep_what_any_piece_was_fitted_by(tmp_path: Any) -> None:
    model = load("zoo:one-layer")
    found = heedful.explain(
        model,
        "good food " * 140,
        ["occlusion", "grad-l2"],
        long="window",
        params={"occlusion": {"operator": "swap"}},
    )
    assert any("windows" in note for note in found.x.notes)
    assert found["occlusion"].fitted_by == ("swap",)
    found.save(tmp_path / "run")
    again = heedful.Comparison.load(tmp_path / "run")
    assert {item.method: item.fitted_by for item in again.attributions} == {
        "occlusion": ("swap",),
        "grad-l2": (),
        "random": (),
    }
