"""The bias probe: planted attention with known effects, a model without any, flipped signs, and templates."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from heedful.core.errors import HeedfulError
from heedful.heads.roles.bias_templates import BUILT_IN, Template, read, variant
from heedful.heads.roles.pronoun_bias import PronounTokens, bias, effects, judge, looked, place

NURSE = Template("The {a} asked the {b} a question because {pronoun}", "nurse", "cook", "she", "he")
LINE = "template,a,b,pronoun_1,pronoun_2\n"
CAT = Template("the {a} sat on the {b} . {pronoun}", "cat", "dog", "you", "a")  # words the toys know


# --- templates -------------------------------------------------------------------------------------


def test_variants_and_their_spans() -> None:
    texts = {}
    for swapped, second in itertools.product((False, True), repeat=2):
        v = variant(NURSE, swapped=swapped, second=second)
        texts[swapped, second] = v.text
        assert (v.text[slice(*v.a)], v.text[slice(*v.b)]) == ("nurse", "cook")
        assert v.text[slice(*v.pronoun)] == ("he" if second else "she")
    assert texts[False, False] == "The nurse asked the cook a question because she"
    assert texts[True, True] == "The cook asked the nurse a question because he"


def test_the_built_in_templates_are_what_is_said_of_them() -> None:
    found = read()
    assert len(found) == 27
    people = [word for t in found for word in (t.a, t.b)]
    assert len(set(people)) == len(people)
    assert {(t.pronoun_1, t.pronoun_2) for t in found} == {("she", "he")}
    assert len({t.template for t in found}) == 6
    assert BUILT_IN.is_file()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("a,b\nx,y\n", "no column template, pronoun_1, pronoun_2"),
        (LINE + "{a} {b} {pronoun},x,y,she,he\n", "fewer than two"),
        (LINE + "{a} {b} {pronoun},x,y,she,he\n{a} {b},x,y,she,he\n", "line 3 is not a template"),
        (
            LINE + "{a} {b} {pronoun},x,y,she,he\n{a} {a} {b} {pronoun},x,y,she,he\n",
            "line 3 is not a template",
        ),
        (
            LINE + "{a} {pronoun} {b},x,y,she,he\n{a} {b} {pronoun},x,y,she,he\n",
            "line 2 has its pronoun first",
        ),
        (LINE + "{a} {b} {pronoun},x,,she,he\n{a} {b} {pronoun},x,y,she,he\n", "line 2 has an empty b"),
        (LINE + "{a} {b} {pronoun},x,x,she,he\n{a} {b} {pronoun},x,y,she,he\n", "nothing to flip"),
        (LINE + "{a} {b} {pronoun},x,y,he,he\n{a} {b} {pronoun},x,y,she,he\n", "nothing to flip"),
        (LINE + "{a} {b} {pronoun},x\n{a} {b} {pronoun},x,y,she,he\n", "line 2 has an empty b"),
        (LINE + '"{a} {b} {pronoun},x,y,she,he\n', "is not CSV"),
    ],
)
def test_templates_that_are_wrong(content: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(HeedfulError) as raised:
        read(file)
    assert why in str(raised.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(HeedfulError, match="cannot read"):
        read(tmp_path / "none.csv")
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(HeedfulError, match="not UTF-8"):
        read(tmp_path / "b.csv")


# --- scores ----------------------------------------------------------------------------------------


def test_attention_of_split_words_is_summed_and_of_a_split_pronoun_averaged() -> None:
    maps = np.zeros((1, 1, 6, 6), dtype=np.float32)
    maps[0, 0, 4] = [0.1, 0.2, 0.3, 0.25, 0.15, 0]
    maps[0, 0, 5] = [0.5, 0.1, 0.1, 0.05, 0.15, 0.1]
    found = looked(maps, PronounTokens((1, 2), (3,), (4, 5)))
    assert found[0, 0] == pytest.approx([(0.5 + 0.2) / 2, (0.25 + 0.05) / 2])


def planted(n: int, association: float, first: float, noise: float, seed: int = 0) -> Any:
    """(n, 2, 2, 2, 2) attention of two heads: head 1 looks at a with 0.5 + association/2 from pronoun 1 (less
    from 2), + first/2 where a stands first (less where second); head 0 half and half."""
    rng = np.random.default_rng(seed)
    seen = np.full((n, 2, 2, 2, 2), 0.2)
    for order, pronoun in itertools.product(range(2), repeat=2):
        share = 0.5 + association / 2 * (1 - 2 * pronoun) + first / 2 * (1 - 2 * order)
        share = share + noise * rng.normal(size=n)
        seen[:, order, pronoun, 1, 0], seen[:, order, pronoun, 1, 1] = 0.3 * share, 0.3 * (1 - share)
    return seen


def test_effects_of_planted_attention_are_exact() -> None:
    mass, share, pronoun, roles = effects(planted(5, 0.25, -0.5, 0))
    assert mass == pytest.approx(np.tile([0.4, 0.3], (5, 1)))
    assert share == pytest.approx(np.full((5, 2), 0.5))
    assert pronoun == pytest.approx(np.tile([0, 0.25], (5, 1)))
    assert roles == pytest.approx(np.tile([0, -0.5], (5, 1)))


def test_place_and_association_are_kept_apart() -> None:
    """A head that looks only at who stands first shows no association, and the other way about."""
    _, (_, placed), _ = judge(planted(20, 0.0, 0.8, 0.02), (1, 2), 0)
    assert placed.pronoun.interval[0] < 0 < placed.pronoun.interval[1]
    assert placed.roles.interval[0] > 0.7
    _, (_, tied), _ = judge(planted(20, 0.8, 0.0, 0.02), (1, 2), 0)
    assert tied.pronoun.interval[0] > 0.7
    assert tied.roles.interval[0] < 0 < tied.roles.interval[1]


def test_a_flipped_sign_is_seen() -> None:
    _, (_, one), _ = judge(planted(20, 0.3, 0.1, 0.05), (1, 2), 0)
    _, (_, other), _ = judge(planted(20, 0.3, 0.1, 0.05)[:, :, ::-1], (1, 2), 0)
    assert one.pronoun.value == -other.pronoun.value == pytest.approx(0.3, abs=0.05)
    assert one.roles.value == other.roles.value
    _, (_, swapped), _ = judge(planted(20, 0.3, 0.1, 0.05)[..., ::-1], (1, 2), 0)  # a is b, b is a
    assert swapped.pronoun.value == pytest.approx(-one.pronoun.value)
    assert swapped.share == pytest.approx(1 - one.share)


def test_the_control_is_what_shuffled_labels_show() -> None:
    overall, heads, control = judge(planted(24, 0.3, 0.0, 0.1), (1, 2), 0)
    assert [(head.layer, head.head) for head in heads] == [(0, 0), (0, 1)]
    assert heads[1].pronoun.p < 0.001
    assert heads[0].pronoun.p == 1.0
    assert heads[1].pronoun.value > control > 0.05  # 95 % of sign flips: about 2 x 0.31/sqrt(24)
    assert control == pytest.approx(1.96 * np.sqrt(0.3**2 + 0.1**2) / np.sqrt(24), rel=0.15)
    assert overall.pronoun.value == pytest.approx(heads[1].pronoun.value / 2)
    assert overall.layer == -1
    _, still, larger = judge(planted(24, 0.0, 0.3, 0.1), (1, 2), 0)
    assert abs(still[1].pronoun.value) < larger
    assert still[1].pronoun.p > 0.05


def test_a_head_that_sees_neither_has_no_share_to_move() -> None:
    _, share, pronoun, _ = effects(np.zeros((3, 2, 2, 1, 2)))
    assert (share == 0.5).all()
    assert (pronoun == 0).all()


# --- whole models ----------------------------------------------------------------------------------


def toys(n: int = 3) -> list[Template]:
    words = ["mat", "house", "world", "hello", "good", "bad"]
    return [Template(CAT.template, words[2 * i], words[2 * i + 1], "you", "a") for i in range(n)]


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_numbers_are_those_of_the_models_own_maps(shared: Callable[[str], Any], name: str) -> None:
    family = shared(name)
    found = bias(family.model, toys())
    family.hf.set_attn_implementation("eager")
    moved = []
    for t in toys():
        share = {}
        for swapped, second in itertools.product((False, True), repeat=2):
            v = variant(t, swapped=swapped, second=second)
            x = family.model.encode(v.text)
            with torch.no_grad():
                maps = family.hf(torch.tensor([x.ids]), output_attentions=True).attentions[1][0, 3].numpy()
            of = {
                key: [
                    k
                    for k, s in enumerate(x.offsets)
                    if s[0] < getattr(v, key)[1] and s[1] > getattr(v, key)[0]
                ]
                for key in ("a", "b", "pronoun")
            }
            to_a, to_b = (np.mean([maps[q, of[key]].sum() for q in of["pronoun"]]) for key in ("a", "b"))
            share[swapped, second] = to_a / (to_a + to_b)
        moved.append(share[False, False] + share[True, False] - share[False, True] - share[True, True])
    family.hf.set_attn_implementation("sdpa")
    assert found.heads[7].pronoun.value == pytest.approx(np.mean(moved) / 2, rel=1e-4)
    assert found.templates == 3


def test_the_preference_is_the_models_own(shared: Callable[[str], Any]) -> None:
    family = shared("gpt2")
    templates = [Template("the {a} on the {b}.{pronoun}", t.a, t.b, "a", "b") for t in toys()]
    found = bias(family.model, templates).preference
    assert found is not None
    wanted = np.zeros((3, 2))
    one, two = (family.tokenizer(letter)["input_ids"][0] for letter in "ab")
    for i, t in enumerate(templates):
        for k, (first, then) in enumerate(((t.a, t.b), (t.b, t.a))):
            logits = family.model.logits(family.model.encode(f"the {first} on the {then}."))
            wanted[i, k] = float(logits[one] - logits[two])
    assert found.n == 3
    assert found.value == pytest.approx(wanted.mean(), abs=1e-4)
    assert found.roles == pytest.approx((wanted[:, 0] - wanted[:, 1]).mean(), abs=1e-4)
    assert found.interval[0] < found.value < found.interval[1]


def test_pronouns_of_several_tokens_have_no_preference(shared: Callable[[str], Any]) -> None:
    templates = [Template(CAT.template, t.a, t.b, "xyzzy", "zyxxz") for t in toys()]
    found = bias(shared("gpt2").model, templates)
    assert found.preference is None
    assert any("leaves out 3 templates" in note for note in found.notes)


def test_a_model_that_cannot_tell_the_words_apart_shows_nothing(fresh: Callable[[str], Any]) -> None:
    """All people get one embedding: whoever a and b are, nothing can be associated with them."""
    family = fresh("gpt2")
    words = sorted({"mat", "cat", "dog", "world", "house", "hello", "good", "low", "stop", "not"})
    ids = {word: family.tokenizer(" " + word)["input_ids"] for word in words}
    one = [word for word in words if len(ids[word]) == 1]
    assert len(one) >= 4
    templates = [Template(CAT.template, *pair, "you", "a") for pair in itertools.pairwise(one)]
    before = bias(family.model, templates)
    assert max(abs(head.pronoun.value) for head in before.heads) > 1e-3
    table = family.hf.transformer.wte.weight
    with torch.no_grad():
        table[[ids[word][0] for word in one]] = table[ids[one[0]][0]].clone()
    flat = bias(family.model, templates)
    assert max(abs(head.share - 0.5) for head in flat.heads) < 1e-6
    assert max(abs(head.pronoun.value) for head in flat.heads) < 1e-6
    assert max(abs(head.roles.value) for head in flat.heads) > 0.1  # places are still seen
    assert not flat.moved()


def test_mistakes_are_told(shared: Callable[[str], Any]) -> None:
    with pytest.raises(HeedfulError, match="causal language model"):
        bias(shared("bert").model, toys())
    with pytest.raises(HeedfulError, match="one template"):
        bias(shared("gpt2").model, toys(1))
    v = variant(CAT, swapped=False, second=False)
    x = shared("gpt2").model.encode(v.text)
    from dataclasses import replace

    with pytest.raises(HeedfulError, match="share a token"):
        place(replace(x, offsets=((0, len(v.text)), *x.offsets[1:])), v)


def test_tables_are_plain(shared: Callable[[str], Any]) -> None:
    import json

    found = bias(shared("gpt2").model, toys(), seed=3)
    rows = found.table()
    assert [(row["layer"], row["head"]) for row in rows] == [(i, j) for i in range(2) for j in range(4)]
    assert rows[5]["roles_low"] == found.heads[5].roles.interval[0]
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["heads"][5]["share"] == rows[5]["share"]
    assert found.to_dict() == bias(shared("gpt2").model, toys(), seed=3).to_dict()


def test_the_embedded_language_model_looks_at_places() -> None:
    """The numbers of docs/heads.md."""
    import heedful

    found = bias(heedful.load("zoo:lm"), read())
    assert not found.moved()
    assert found.overall.pronoun.value == pytest.approx(0.002, abs=0.001)
    assert found.overall.roles.value == pytest.approx(-0.183, abs=0.002)
    assert found.preference is not None
    assert (found.preference.value, found.preference.roles) == pytest.approx((-2.09, 0.04), abs=0.01)
