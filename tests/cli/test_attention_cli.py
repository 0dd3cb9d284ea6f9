"""`heedful attention`: what it prints, one document with --json, one line for a mistake."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.cli.main import main
from heedful.heads.ablation.ablate_text import OWN_MEANS, without
from heedful.heads.kinds import KINDS, SCORES
from heedful.heads.top_links import strongest
from heedful.reports.atlas import LETTERS

TEXT = "the service is not bad, and the unbelievable food."


@pytest.fixture
def run(capfd: Any) -> Any:
    """Arguments -> (exit code, stdout, stderr)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(["attention", *arguments])
        out = capfd.readouterr()
        return code, out.out, out.err

    return call


@pytest.fixture(scope="module")
def atlas() -> Any:
    return heedful.attention("zoo:sentiment", TEXT)


def test_a_letter_a_head_and_the_strongest_links(run: Any, atlas: Any) -> None:
    code, out, err = run(TEXT)
    assert code == 0
    words = atlas.words()
    lines = out.splitlines()
    kinds = words.kinds()
    for layer in range(4):
        letters = " ".join(LETTERS[kind.kind] for kind in kinds[4 * layer : 4 * layer + 4])
        assert any(line.split()[:5] == [str(layer), *letters.split()] for line in lines), letters
    matrix = words.maps.mean((0, 1))
    np.fill_diagonal(matrix, 0)
    matrix[:, [0, -1]] = matrix[[0, -1]] = 0  # special tokens
    q, k = np.unravel_index(matrix.argmax(), matrix.shape)
    labels = words.stacks[0].keys.labels
    first = next(line for line in lines if "→" in line)
    assert first.split()[:3] == [labels[q], "→", labels[k]]
    assert float(first.split()[3]) == pytest.approx(float(matrix.max()), rel=0.01)
    said = " ".join(out.split())
    assert "of their attention to special tokens, mean over heads; uniform attention would give" in said
    assert "sdpa to eager" in out
    assert "--html" in err


def test_letters_are_different() -> None:
    assert len(set(LETTERS.values())) == len(KINDS)


def test_one_head(run: Any, atlas: Any) -> None:
    code, out, _ = run(TEXT, "--layer", "1", "--head", "2", "--unit", "token", "--links", "3")
    assert code == 0
    kind = atlas.kinds()[6]
    assert f"layer 1 head 2: {kind.kind}" in out
    assert f"broad {kind.scores['broad']:.2f}" in out
    links = [line.split() for line in out.splitlines() if "→" in line]
    assert len(links) == 3
    assert float(links[0][3]) == pytest.approx(float(atlas.maps[1, 2].max()), rel=0.01)


def test_json_is_one_document(run: Any, atlas: Any) -> None:
    code, out, err = run(TEXT, "--json", "--aggregate", "rollout")
    assert code == 0
    document = json.loads(out)
    np.testing.assert_allclose(document["shown"]["matrix"], atlas.words().rollout(), atol=1e-6)
    assert document["shown"]["aggregate"] == "rollout"
    link = document["shown"]["links"][0]
    assert link["weight"] == pytest.approx(document["shown"]["matrix"][link["query"]][link["key"]])
    control = atlas.words().uniform().rollout()[link["query"], link["key"]]
    assert link["uniform"] == pytest.approx(control)
    assert "weights" not in document["stacks"][0]
    assert document["unit"] == "word"
    assert "loading" not in err


def test_json_with_all_weights(run: Any, atlas: Any) -> None:
    _, out, _ = run(TEXT, "--json", "--weights", "--unit", "token")
    np.testing.assert_allclose(json.loads(out)["stacks"][0]["weights"], atlas.maps, atol=1e-6)


def test_gradients_are_taken_only_when_asked_for(run: Any) -> None:
    for more, target in (((), None), (("--target", "positive"), "positive")):
        document = json.loads(run(TEXT, "--json", *more)[1])
        assert document["target"] == target
    shown = json.loads(run(TEXT, "--json", "--aggregate", "gradient")[1])
    assert np.sum(shown["shown"]["matrix"]) > 0


def test_csv_has_a_line_a_head_or_a_weight(run: Any, atlas: Any) -> None:
    rows = list(csv.DictReader(io.StringIO(run(TEXT, "--csv")[1])))
    assert len(rows) == 16
    assert set(SCORES) <= set(rows[0])
    weights = list(csv.DictReader(io.StringIO(run("not bad", "--csv", "--weights")[1])))
    assert len(weights) == 16 * 4 * 4


def test_files_are_written(run: Any, tmp_path: Path) -> None:
    page, figure = tmp_path / "new" / "heads.html", tmp_path / "new" / "heads.svg"
    code, _, err = run("not bad", "--html", str(page), "--figure", str(figure))
    assert code == 0
    assert page.read_text(encoding="utf-8").lower().startswith("<!doctype html")
    assert "<svg" in figure.read_text(encoding="utf-8")
    assert f"wrote {page}" in err
    assert f"wrote {figure}" in err


def test_the_view_of_a_figure_can_be_named(run: Any, tmp_path: Path) -> None:
    for view, part in (
        ("layout", "of the spread"),
        ("matrix", "layer 1, head 0"),
        ("head", "strongest link"),
    ):
        figure = tmp_path / f"{view}.svg"
        code, _, _ = run("the food is bad", "--layer", "1", "--figure", str(figure), "--view", view)
        assert code == 0
        assert part in figure.read_text(encoding="utf-8")


def test_a_short_text_says_how_little_kinds_mean(run: Any) -> None:
    assert "kinds of heads mean little on a text of 2 words" in " ".join(run("not bad")[1].split())
    assert "mean little" not in run("not bad food")[1]


def test_an_answer_is_what_ablation_is_measured_on(run: Any) -> None:
    base = ["Once upon", "-m", "zoo:lm", "--ablate", "0.0", "--how", "mean", "--json"]
    plain, forced = (json.loads(run(*base, *more)[1]) for more in ((), ("--answer", " a time")))
    model: Any = heedful.load("zoo:lm")
    expected = without(model, model.encode("Once upon a time"), "0.0", "mean").to_dict()
    assert forced["without"] == expected
    assert forced["without"]["value"] != plain["without"]["value"]
    assert forced["without"]["notes"].count(OWN_MEANS) == 1


def test_quiet_says_nothing_beside(run: Any) -> None:
    assert run("not bad", "--quiet")[2] == ""


def test_a_pair_and_a_chat(run: Any, tmp_path: Path) -> None:
    document = json.loads(run("not bad", "--pair", "the food", "--json")[1])
    assert set(document["stacks"][0]["keys"]["segments"]) == {-1, 0, 1}
    chat = tmp_path / "chat.json"
    chat.write_text('[{"role": "user", "content": "hello"}]')
    code, _, err = run("--chat", str(chat))  # the zoo's classifier has no template
    assert code == 2
    assert "chat template" in err


def test_a_decoder_and_what_it_wrote(run: Any) -> None:
    document = json.loads(run("Once upon", "-m", "zoo:lm", "--answer", " a time", "--json")[1])
    assert document["stacks"][0]["causal"] is True
    assert document["stacks"][0]["keys"]["labels"] == ["Once", "upon", "a"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["not bad", "--head", "1"], "--layer 0 --head 1"),
        (["not bad", "--layer", "1", "--head", "1", "--aggregate", "max"], "Drop one of them"),
        (["not bad", "--figure", "heads.gif"], ".png or .svg"),
        (["not bad", "--layer", "4"], "no layer 4"),
        (["not bad", "--layer", "0", "--head", "4"], "no head 4"),
        (["not bad", "--layer", "7", "--head", "0"], "no layer 7"),
        (["not bad", "--stack", "cross"], "this model has: self"),
        (["not bad", "--answer", "x"], "writes no answer"),
        (["not bad", "--target", "good"], "unknown label"),
        (["not bad", "--json", "--csv"], "Choose one"),
        (["not bad", "--aggregate", "median"], "median"),
        (["   "], "empty"),
        (["not bad", "--view", "layout"], "--figure heads.svg --view layout"),
        (["bad " * 3000], "use long='truncate' (--long truncate)."),
        (["bad " * 3000, "--ablate", "0.0"], "use long='truncate' (--long truncate)."),
    ],
)
def test_a_mistake_is_one_line(run: Any, arguments: list[str], message: str) -> None:
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("heedful: ")
    assert err.count("\n") == 1
    assert message in err


def test_help_teaches_with_examples(run: Any) -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert 'heedful attention "the service is not bad" --html' in out
    assert "It does not show what the model uses" in " ".join(out.split())


def test_links_leave_out_what_is_always_strong(atlas: Any) -> None:
    maps = atlas.stacks[0]
    flat = np.full(maps.weights.shape[2:], 0.1)
    found = strongest(maps, flat, flat, k=10_000)
    words = len(maps.keys) - 2
    assert len(found) == words * (words - 1)
    everything = strongest(maps, flat, flat, k=10_000, words_only=False)
    assert len(everything) == len(maps.keys) ** 2
    assert [(link.query, link.key) for link in everything[:2]] == [(0, 0), (0, 1)]  # ties in reading order


def test_links_do_not_look_ahead_under_a_mask() -> None:
    maps = heedful.attention("zoo:lm", "Once upon a time").stacks[0]
    found = strongest(maps, np.ones(maps.weights.shape[2:]), np.ones(maps.weights.shape[2:]), k=100)
    assert found
    assert all(link.key < link.query for link in found)


def test_help_terminal_and_page_use_the_same_words(run: Any, tmp_path: Path) -> None:
    from heedful.reports.atlas import LOOKS_AT

    _, help_text, _ = run("--help")
    said = " ".join(help_text.split())
    for kind, letter in LETTERS.items():
        assert f"{letter} {kind} (" in said
    assert set(LOOKS_AT) == set(KINDS)
    _, out, _ = run("the service is not bad", "--html", str(tmp_path / "heads.html"))
    shown, page = " ".join(out.split()), (tmp_path / "heads.html").read_text()
    for text in (shown, page):
        assert "4 × 4 heads, 5 words and 2 special tokens." in text
        assert "Strongest links between words, mean of all heads" in text
        assert "none of these" in text
