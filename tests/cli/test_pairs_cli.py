"""The command line on pairs of a picture and a text: audits of tables, zero-shot, attention, what works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.cli.console import captions
from heedful.cli.main import main
from heedful.core import registry
from heedful.core.errors import HeedfulError
from heedful.io.datasets import Columns, open_source

SCENES = Path(__file__).parents[2] / "docs" / "examples"
CLIP = ["--model", "zoo:tiny-clip"]
FEW = ["--method", "occlusion", "--metric", "comprehensiveness", "--draws", "2", "--unit", "grid:2"]
PAIR = {"picture": str(SCENES / "scenes" / "1.png"), "text": "a red seven"}


def run(capsys: Any, *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def test_an_audit_of_pictures_and_captions(capsys: Any) -> None:
    wanted = [str(SCENES / "scenes.csv"), *CLIP, *FEW, "--limit", "2", "--mask-column", "mask_1", "--json"]
    code, out, err = run(capsys, "audit", *wanted, "--text-column", "caption")
    assert code == 0, err
    data = json.loads(out)
    assert data["texts"] == 2
    assert not data["errors"]
    assert "2 pairs are too few" in err
    assert "texts" not in err


def test_the_texts_of_pairs_are_found_by_their_usual_names() -> None:
    source = open_source(SCENES / "scenes.csv", modality="image+text")
    assert source.facts()["columns"] == {"path": "path", "caption": "caption"}
    row = next(source.rows())
    assert row.text == {"picture": str(SCENES / "scenes/1.png"), "text": "a red seven"}
    pictures = open_source(SCENES / "scenes.csv", modality="image")
    assert pictures.facts()["columns"] == {"path": "path"}
    assert next(pictures.rows()).text == str(SCENES / "scenes/1.png")


def test_an_audit_of_captions_to_choose_from(capsys: Any) -> None:
    labels = ["--labels", "a red seven, a purple ring", "--label-column", "caption"]
    code, out, err = run(capsys, "audit", str(SCENES / "scenes.csv"), *CLIP, *FEW, *labels, "--json")
    assert code == 0, err
    data = json.loads(out)
    assert data["labelled"] == data["right"] == 2
    assert "6 pictures are too few" in err


@pytest.mark.parametrize(
    ("columns", "option"),
    [
        (Columns(path="nothing"), "paths with --path-column"),
        (Columns(text="nothing"), "texts with --text-column"),
        (Columns(mask="nothing"), "masks with --mask-column"),
        (Columns(label="nothing"), "labels with --label-column"),
    ],
)
def test_a_column_that_is_missing_names_its_own_option(columns: Columns, option: str) -> None:
    with pytest.raises(HeedfulError, match=f"no column 'nothing'.*Name the column of the {option}"):
        open_source(SCENES / "scenes.csv", columns=columns, modality="image+text")


def test_a_table_of_neither_texts_nor_pictures_names_both_options(capsys: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    code, _, err = run(capsys, "audit", str(tmp_path / "a.csv"), "--model", "zoo:digits-vit")
    assert code == 2
    assert "--text-column" in err
    assert "--path-column" in err


def test_a_folder_has_no_captions(capsys: Any) -> None:
    code, _, err = run(capsys, "audit", str(SCENES / "scenes"), *CLIP, "-q")
    assert code == 2
    assert "Give a table with the columns path and caption" in err


def test_attention_of_two_encoders(capsys: Any) -> None:
    picture = PAIR["picture"]
    code, _, err = run(capsys, "attention", picture, *CLIP, "-q")
    assert code == 2
    assert "has two" in err
    assert "--labels A,B" in err
    chosen = ["--labels", "a red seven,a purple ring"]
    code, out, err = run(capsys, "attention", picture, *CLIP, *chosen, "--json")
    assert code == 0, err
    assert json.loads(out)["model"]["prediction"][0][0] == "a red seven"


def test_advice_can_be_followed(capsys: Any) -> None:
    explain = ["explain", PAIR["picture"], *CLIP, "-q", "--method", "random"]
    code, _, err = run(capsys, *explain, "--text", "red " * 60)
    assert code == 2
    assert "window'" not in err
    assert "--long truncate" in err
    code, _, err = run(capsys, *explain, "--text", "a red seven", "--target", "rather than a blue star")
    assert code == 2
    assert "--contrast B" in err
    code, _, err = run(capsys, "explain", "http://example.com/a.png", *CLIP, "--text", "a", "-q")
    assert code == 2
    assert "http://example.com/a.png is an address" in err


@pytest.mark.parametrize("name", ["zoo:tiny-clip", "zoo:digits-vit"])
def test_what_works_runs_and_what_does_not_says_why(name: str) -> None:
    model = heedful.load(name)
    given = PAIR if model.modality == "image+text" else PAIR["picture"]
    support = {each.method: each for each in registry.support(model)}
    works = [each.method for each in support.values() if each.ok]
    small = {"lime": {"samples": 40}, "kernel-shap": {"samples": 40}, "rise": {"samples": 40}}
    small |= {"anchors": {"samples": 100}, "smoothgrad": {"samples": 4}}
    params = {each: small.get(each, {}) for each in works}
    result = heedful.explain(model, given, works, unit="grid:2", evidence=False, params=params)
    assert not result.skipped
    assert set(works) <= set(result)
    if name == "zoo:tiny-clip":
        assert "another text (--contrast)" in support["anchors"].why
        assert "one encoder" in support["attention-optimus"].why


def test_the_doctor_and_the_help_name_pad(capsys: Any) -> None:
    code, out, _ = run(capsys, "doctor", "zoo:tiny-clip")
    assert code == 0
    told = " ".join(out.split())
    assert "inpaint, pad" in told
    assert "texts with pictures of 48 × 48 pixels" in told
    code, out, _ = run(capsys, "explain", "--help")
    assert "inpaint, or pad" in " ".join(out.replace("│", " ").split())


def test_sentences_about_pictures_name_their_own_parts(capsys: Any) -> None:
    wanted = ["--model", "zoo:digits-vit", "--method", "occlusion,attention-flow", "--no-evidence"]
    code, out, err = run(capsys, "explain", PAIR["picture"], *wanted)
    assert code == 0, err
    assert "-v for every patch, evidence" in " ".join(out.split())
    code, out, err = run(capsys, "explain", PAIR["picture"], *wanted, "-v")
    assert code == 0, err
    told = " ".join(out.split())
    assert "The strongest fifth of the patches is marked" in told
    assert "on special tokens" not in told
    assert told.count("tokens") == told.count("special tokens") == 1  # what the class token gets
    assert "pixels" in told
    assert "word" not in told


def test_positions_of_a_picture_are_no_tokens() -> None:
    item = heedful.explain("zoo:digits-vit", PAIR["picture"], ["attention-flow"], evidence=False)[
        "attention-flow"
    ]
    assert not [note for note in item.notes if " tokens can take" in note]
    with pytest.raises(HeedfulError, match="per position, and there are 65"):
        heedful.explain(
            "zoo:digits-vit",
            PAIR["picture"],
            ["attention-flow"],
            evidence=False,
            params={"attention-flow": {"limit": 8}},
        )


def test_metrics_remove_more_than_words(capsys: Any) -> None:
    code, out, _ = run(capsys, "metrics", "insertion")
    assert code == 0
    assert "full input" in " ".join(out.split())
    assert "it removes words or other parts" in out


def test_a_text_and_labels_exclude_each_other(capsys: Any) -> None:
    """Said before the model is loaded: there is no such model."""
    both = ("--text", "a red ring", "--labels", "a red ring,a blue star")
    code, _, err = run(capsys, "explain", "a.png", "-m", "no/such/model", *both)
    assert code == 2
    assert err.startswith("heedful: --text and --labels exclude each other: --text compares the picture with")


def test_attention_of_a_pair_names_the_option_that_helps(capsys: Any) -> None:
    picture = PAIR["picture"]
    code, _, err = run(capsys, "attention", picture, "--text", "a red ring", *CLIP)
    assert code == 2
    assert "an atlas shows the heads of one encoder" in err
    assert "--labels A,B" in err
    code, _, err = run(capsys, "attention", "good", "--text", "a red ring", "-m", "zoo:sentiment")
    assert (code, "compares no picture with a text" in err) == (2, True)
    code, _, err = run(capsys, "attention", picture, "--text", "a", "--labels", "a,b", *CLIP)
    assert (code, "exclude each other" in err) == (2, True)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a ring, a star", ["a ring", "a star"]),
        ('"a red, big seven",a purple ring', ["a red, big seven", "a purple ring"]),
        ('a purple ring, "a red, big seven"', ["a purple ring", "a red, big seven"]),
        ('a 5" ring,the "best" star', ['a 5" ring', 'the "best" star']),
        ("a ring,,\n a star,", ["a ring", "a star"]),
        (None, None),
    ],
)
def test_captions_with_a_comma_are_in_quotes(given: str | None, expected: list[str] | None) -> None:
    assert captions(given) == expected


@pytest.mark.parametrize("given", ['"a ring', '"a ring"b,c'])
def test_captions_whose_quotes_do_not_match_are_refused(given: str) -> None:
    with pytest.raises(HeedfulError, match="the quotes do not match"):
        captions(given)


def test_the_words_of_a_pair_are_not_said_to_be_blurred(capsys: Any) -> None:
    place = str(SCENES / "scenes" / "2.png")
    code, out, err = run(
        capsys,
        "explain",
        place,
        "--text",
        "a purple ring",
        *CLIP,
        "--method",
        "occlusion",
        "--unit",
        "grid:2",
    )
    assert code == 0, err
    assert "removing" in out
    assert "blurring" not in out
