"""Run folders: exact round trips, valid JSON whatever the numbers, and damage that is noticed."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.io.reforged import reforge

from heedful.comparisons.explanation_codec import (
    attribution_to_dict,
    comparison_from_dict,
    comparison_to_dict,
)
from heedful.comparisons.result import Comparison
from heedful.core.attribution import Attribution
from heedful.core.cost import Cost
from heedful.core.errors import HeedfulError
from heedful.core.target import Target
from heedful.modalities.text import TextInput

# sums of a few of them stay finite: overflow is not what these tests are about
floats = st.floats(-1e300, 1e300) | st.just(float("nan"))
text = st.text(max_size=12)


@st.composite
def builders(draw: st.DrawFn) -> Callable[[], Comparison]:
    """A function that builds the comparison: types are checked as the tests run, which must not happen while
    hypothesis draws (the checker uses `random`)."""
    n, words = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    column = lambda of: draw(st.lists(of, min_size=n, max_size=n))  # noqa: E731
    spans = st.tuples(st.integers(0, 5), st.integers(5, 9))
    encoded = {
        "text": draw(st.text(max_size=30)),
        "ids": tuple(column(st.integers(0, 99))),
        "tokens": tuple(column(text)),
        "offsets": tuple(column(spans)),
        "special": tuple(column(st.booleans())),
        "words": tuple(column(st.integers(-1, words - 1))),
        "word_spans": tuple(draw(st.lists(spans, min_size=words, max_size=words))),
        "segments": tuple(column(st.integers(-1, 1))),
        "type_ids": draw(st.none() | st.just((0,) * n)),
        "notes": tuple(draw(st.lists(text, max_size=2))),
    }
    contrast = draw(st.none() | st.integers(0, 3))
    target = {"index": draw(st.integers(0, 3)), "label": draw(text), "sequence": (3, 4), "contrast": contrast}
    items = [
        {
            "scores": np.array(column(floats)),
            "method": name,
            "params": {"steps": draw(st.integers()), "rate": 0.1},
            "stderr": np.array(column(floats)) if draw(st.booleans()) else None,
            "output": draw(floats),
            "base": draw(st.none() | st.floats(allow_nan=False)),
            "signed": draw(st.booleans()),
            "notes": tuple(draw(st.lists(text, max_size=2))),
        }
        for name in draw(st.lists(st.sampled_from(["lime", "random", "occlusion"]), unique=True))
    ]
    facts, seconds = {"name": draw(text), "prediction": [["a", 0.9]]}, draw(st.floats(0, 10))

    def build() -> Comparison:
        x, goal, cost = TextInput(**encoded), Target("class", **target), Cost(1, 2, 3, 4, seconds)
        found = tuple(Attribution(x, goal, cost=cost, **item) for item in items)
        return Comparison(found, facts, {"seed": 0}, {"x": "why"})

    return build


def same(a: Comparison, b: Comparison) -> None:
    """Equal to the last bit, nan where nan was."""
    assert (a.model, a.settings, a.skipped, list(a)) == (b.model, b.settings, b.skipped, list(b))
    for one, two in zip(a.attributions, b.attributions, strict=True):
        assert (one.x, one.target, one.params, one.signed, one.base, one.cost, one.notes) == (
            two.x,
            two.target,
            two.params,
            two.signed,
            two.base,
            two.cost,
            two.notes,
        )
        for name in ("scores", "output", "stderr"):
            first, second = getattr(one, name), getattr(two, name)
            assert (first is None) == (second is None)
            if first is not None:
                first, second = np.asarray(first), np.asarray(second)
                numbers = ~np.isnan(first)
                np.testing.assert_array_equal(np.isnan(second), ~numbers)
                assert first[numbers].tobytes() == second[numbers].tobytes()


def strict(content: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(content, parse_constant=refuse)


@given(builders())
def test_dict_round_trip_is_exact(build: Callable[[], Comparison]) -> None:
    comparison = build()
    content = json.dumps(comparison_to_dict(comparison), allow_nan=False)
    same(comparison, comparison_from_dict(strict(content)))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(builders())
def test_folder_round_trip_is_exact(tmp_path: Path, build: Callable[[], Comparison]) -> None:
    comparison = build()
    same(comparison, Comparison.load(comparison.save(tmp_path / "run")))


def example() -> Comparison:
    x = TextInput(
        text="not bad",
        ids=(1, 5, 6, 7, 2),
        tokens=("[CLS]", "not", "ba", "##d", "[SEP]"),
        offsets=((0, 0), (0, 3), (4, 6), (6, 7), (0, 0)),
        special=(True, False, False, False, True),
        words=(-1, 0, 1, 1, -1),
        word_spans=((0, 3), (4, 7)),
        segments=(-1, 0, 0, 0, -1),
    )
    lime = Attribution(
        x, Target("class", 1, "good"), np.array([0.5, 1, 2, 3, 0]), "lime", stderr=np.full(5, 0.1)
    )
    plain = Attribution(x, Target("class", 1, "good"), np.array([0, 1, 1, 1, 0.0]), "random")
    return Comparison((lime, plain), {"name": "toy"}, {"seed": 3})


def test_parquet_has_a_row_for_each_method_and_token(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    rows = pq.read_table(example().save(tmp_path) / "scores.parquet").to_pylist()
    assert len(rows) == 10
    assert rows[3] == {
        "method": "lime",
        "position": 3,
        "token": "##d",
        "word": 1,
        "start": 6,
        "end": 7,
        "score": 3.0,
        "stderr": 0.1,
    }
    assert rows[5]["method"] == "random"
    assert rows[5]["stderr"] is None


def test_json_carries_the_word_view() -> None:
    first = comparison_to_dict(example())["attributions"][0]
    assert [(word["text"], word["score"]) for word in first["words"]] == [("not", 1.0), ("bad", 5.0)]
    assert first["special_mass"] == pytest.approx(0.5 / 6.5)
    assert attribution_to_dict(example()["lime"])["target"]["name"] == "good"


def test_a_run_keeps_by_what_its_methods_were_fitted(tmp_path: Path) -> None:
    first, *others = example().attributions
    run = Comparison((replace(first, fitted_by=("delete", "mask")), *others))
    assert run.attributions[0].to_dict()["fitted_by"] == ["delete", "mask"]
    assert json.loads(run.attributions[0].to_json())["fitted_by"] == ["delete", "mask"]
    again = Comparison.load(run.save(tmp_path / "run"))
    assert [item.fitted_by for item in again.attributions] == [("delete", "mask"), *[()] * len(others)]
    unknown = Comparison.load(Comparison((replace(first, fitted_by=None), *others)).save(tmp_path / "other"))
    assert unknown.attributions[0].fitted_by is None
    data = comparison_to_dict(run)
    for item in data["attributions"]:
        del item["fitted_by"]  # as runs were saved before
    assert all(item.fitted_by == () for item in comparison_from_dict(data).attributions)


def test_odd_settings_become_json() -> None:
    odd = replace(
        example(), settings={"a": np.float32(0.5), "b": (1, 2), "c": {3}, "d": Path("p"), "e": math.inf}
    )
    assert comparison_to_dict(odd)["settings"] == {"a": 0.5, "b": [1, 2], "c": [3], "d": "p", "e": "Infinity"}


def test_methods_on_different_texts_are_no_comparison() -> None:
    one, two = example().attributions
    moved = replace(two, target=Target("class", 0, "bad"))
    with pytest.raises(ValueError, match="one text and one target"):
        comparison_to_dict(Comparison((one, moved)))


def test_half_a_surrogate_pair_survives(tmp_path: Path) -> None:
    odd = Comparison(
        (replace(example()["lime"], x=replace(example().x, tokens=("\ud800", "b", "c", "d", "e"))),)
    )
    assert Comparison.load(odd.save(tmp_path)).x.tokens[0] == "\ud800"


def test_saving_again_replaces_only_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "why.html").write_text("mine")
    example().save(tmp_path)
    replace(example(), settings={"seed": 4}).save(tmp_path)
    assert Comparison.load(tmp_path).settings == {"seed": 4}
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "manifest.json",
        "result.json",
        "scores.parquet",
        "why.html",
    ]


def test_a_failed_write_leaves_the_old_run_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example().save(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(HeedfulError, match="No space left"):
        replace(example(), settings={"seed": 9}).save(tmp_path)
    assert Comparison.load(tmp_path).settings == {"seed": 3}
    assert not list(tmp_path.glob(".*"))


def damage_flip(run: Path) -> None:
    content = bytearray((run / "result.json").read_bytes())
    content[len(content) // 2] ^= 1
    (run / "result.json").write_bytes(bytes(content))


def damage_with_new_checksum(run: Path) -> None:
    def cut(data: Any) -> Any:
        data["attributions"][0]["scores"].pop()
        return data

    reforge(run, cut)


@pytest.mark.parametrize(
    "damage",
    [
        damage_flip,
        damage_with_new_checksum,
        lambda run: (run / "scores.parquet").unlink(),
        lambda run: (run / "manifest.json").unlink(),
        lambda run: (run / "manifest.json").write_text("{"),
        lambda run: (run / "manifest.json").write_text("[]"),
        lambda run: (run / "manifest.json").write_bytes(b"\xff\xfe"),
        lambda run: (run / "manifest.json").write_text("[" * 100_000),
        lambda run: (run / "scores.parquet").write_bytes(b""),
    ],
)
def test_damage_is_a_clear_error(tmp_path: Path, damage: Any) -> None:
    example().save(tmp_path)
    damage(tmp_path)
    with pytest.raises(HeedfulError):
        Comparison.load(tmp_path)


@pytest.mark.parametrize("place", ["missing", "file"])
def test_no_folder_is_a_clear_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(HeedfulError, match="run folder"):
        Comparison.load(tmp_path / place)


def test_saving_where_a_file_is_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(HeedfulError, match="Cannot write"):
        example().save(tmp_path / "file")


def test_opening_needs_neither_torch_nor_transformers(tmp_path: Path) -> None:
    example().save(tmp_path)
    code = (
        "import sys; from heedful.comparisons.result import Comparison; "
        "c = Comparison.load(sys.argv[1]); c._repr_html_();"
        "bad = {'torch', 'transformers', 'pyarrow'} & set(sys.modules); sys.exit(str(bad) if bad else 0)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
