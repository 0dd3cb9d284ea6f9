"""One reader of labels: a table of spellings, the same in every command that takes labels."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.cli.main import main
from heedful.core.errors import HeedfulError
from heedful.heads.ablation.task_metrics import prepare
from heedful.io.labels import is_missing, label_classes, label_index, label_indices

NAMES = ["negative", "positive", "Mixed", "mixed"]
TEXTS = [
    "a good film",
    "a bad film",
    "great fun",
    "dull and long",
    "not bad at all",
    "boring",
    "a fine story",
    "weak acting",
    "I liked it",
    "poor",
]
TRUTH = [1, 0, 1, 0, 1, 0, 1, 0, 1, 1]  # the last is wrong: every share of right answers tells labels apart
SPELLINGS: dict[str, tuple[Any, Any]] = {  # (negative, positive)
    "names": ("negative", "positive"),
    "other case": ("Negative", "POSITIVE"),
    "white space": (" negative", "Positive \t"),
    "digits": ("0", "1"),
    "decimals": ("0.0", "1.0"),
    "numbers": (0, 1),
    "floats": (0.0, 1.0),
    "positions": ("LABEL_0", "label_1"),
    "truth": (False, True),
    "words of truth": ("false", "True"),
}
WRONG = ["good", "2", "1.5", -1, 0.5, "LABEL_2"]


# --- the rule -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "index"),
    [
        ("negative", 0),
        ("POSITIVE", 1),
        ("Mixed", 2),
        ("mixed", 3),
        (" mixed\n", 3),
        (2, 2),
        ("3", 3),
        ("3.0", 3),
        ("3.", 3),
        (1.0, 1),
        (np.int64(2), 2),
        (np.float32(2), 2),
        ("LABEL_2", 2),
        ("label 2", 2),
        ("02", 2),
        ("٣", 3),
    ],
)
def test_labels(value: Any, index: int) -> None:
    assert label_index(value, NAMES) == index


@pytest.mark.parametrize(
    "value",
    [
        "MIXED",
        "nope",
        "",
        "-1",
        "4",
        4,
        -1,
        1.5,
        "1.5",
        "1e0",
        True,
        "true",
        "²",
        "١٢",
        "--1",
        None,
        [1],
        float("nan"),
        float("inf"),
        b"negative",
        "LABEL_4",
        "label_",
    ],
)
def test_wrong_labels_are_refused_with_a_list_of_the_right_ones(value: Any) -> None:
    with pytest.raises(HeedfulError, match="negative, positive, Mixed, mixed"):
        label_index(value, NAMES)


def test_a_wrong_label_gets_a_suggestion() -> None:
    with pytest.raises(HeedfulError, match="Did you mean 'negative'"):
        label_index("Negatve", NAMES)
    with pytest.raises(HeedfulError, match="fits several labels: 'Mixed', 'mixed'"):
        label_index("MIXED", NAMES)


def test_two_labels_are_also_false_and_true() -> None:
    assert [label_index(value, NAMES[:2]) for value in (False, True, np.bool_(True), "TRUE")] == [0, 1, 1, 1]
    assert label_index(False, ["true", "false"]) == 1, "a name goes first"


@pytest.mark.parametrize("one", ["1", "1.0", 1, 1.0, np.int64(1)])
def test_where_a_name_is_a_number_numbers_are_names(one: Any) -> None:
    stars = ["1", "2", "3"]
    assert label_index(one, stars) == 0
    with pytest.raises(HeedfulError, match="labels are: 1, 2, 3"):
        label_index(type(one)(0), stars)  # else 0 and 1 would be the same label
    assert label_index(one, ["0", "1"]) == 1
    assert label_index("LABEL_0", stars) == 0


STARS = ["1 star", "2 stars", "3 stars"]
OTHER = {  # value -> position, of other names with numbers in them
    ("good", "5 stars"): {5: 1},
    ("Class 2", "class 1"): {1: 1, "2": 0},
    ("covid-19", "flu"): {19: 0},
    ("-1 (bad)", "0 (so so)", "+1 (good)"): {-1: 0, 0: 1, 1: 2, "-1": 0},
    ("1-2 stars", "3 stars", "4-5 stars"): {2: 0, 3: 1, 4: 2},
    ("under 1,000", "1,000,000 or more"): {1000: 0, 1e6: 1},
    ("1.5 stars", "2.0 stars"): {1.5: 0, "1.5": 0, 2: 1},
    ("LABEL_1", "LABEL_2"): {1: 0, 2: 1},
    ("LABEL_0", "LABEL_1", "none"): {1: 1, 2: 2},
    ("one star", "two stars"): {1: 1},
}
REFUSED = {  # no name, or more than one
    ("1 star", "2 stars"): [0, "0", 3, "1.5", -1],
    ("good", "5 stars"): [0, 1, "1"],
    ("3 of 5 stars", "5 of 5 stars"): [5, 0, 1],
    ("covid-19", "flu"): [0, 1, -19],
    ("under 1,000", "1,000 or more"): [1, 0, 1000],
    ("3,5 stars", "1.2.3"): [0, 1, 3, 5],
    ("LABEL_1", "LABEL_2"): [0],
}


@pytest.mark.parametrize("type_", [int, float, str, np.int8, np.float32, np.array, torch.tensor])
def test_a_number_is_the_name_with_that_number_in_it(type_: Any) -> None:
    assert [label_index(type_(n), STARS) for n in (1, 2, 3)] == [0, 1, 2]
    with pytest.raises(HeedfulError, match="labels are: 1 star, 2 stars, 3 stars"):
        label_index(type_(0), STARS)
    assert [label_index(type_(n), NAMES) for n in (0, 1, 2)] == [0, 1, 2], "names without numbers"
    assert label_indices(type_(2), STARS) == (1,)


@pytest.mark.parametrize("names", OTHER, ids=", ".join)
def test_numbers_in_names(names: tuple[str, ...]) -> None:
    for value, index in OTHER[names].items():
        assert label_index(value, names) == index, value
    for i in range(len(names)):
        assert label_index(names[i].upper(), names) == i
    assert label_index("LABEL_0", names[::-1]) == (len(names) - 1 if "LABEL_0" in names else 0)


@pytest.mark.parametrize("names", REFUSED, ids=", ".join)
def test_a_number_that_no_name_or_more_than_one_has_is_refused(names: tuple[str, ...]) -> None:
    for value in REFUSED[names]:
        with pytest.raises(HeedfulError, match="The model's labels are: "):
            label_index(value, names)


def test_arrays_and_tensors_of_one_value() -> None:
    for one in (np.array(1), np.array("1"), np.array(True), torch.tensor(1.0), torch.tensor(True)):
        assert label_index(one, NAMES[:2]) == 1
        assert label_indices(one, NAMES[:2]) == (1,)
        assert not is_missing(one)
    assert is_missing(torch.tensor(float("nan")))
    assert label_classes([torch.tensor(1), np.array(1.0), "1"])[1] == [0, 0, 0]
    with pytest.raises(HeedfulError, match="labels are"):
        label_index(np.array([1]), NAMES)


def test_several_labels_of_one_text() -> None:
    names = ["joy", "anger", "fear, or awe"]
    for value in ("anger, Joy", ["anger", 0], (1, "0"), '["joy", 1]', np.array([1, 0]), {"joy", "anger"}):
        assert label_indices(value, names) == (0, 1)
    assert label_indices("Fear, or awe", names) == (2,)
    assert label_indices([], names) == label_indices("[]", names) == ()
    for wrong in ("joy, hope", ["joy", None], "[joy", "[" * 100_000, 7, None):
        with pytest.raises(HeedfulError, match="joy, anger"):
            label_indices(wrong, names)


def test_what_is_missing() -> None:
    assert all(map(is_missing, (None, float("nan"), np.float32("nan"), "", " \t")))
    assert not any(map(is_missing, (0, "0", False, "nan", 0.0, np.bool_(False), [])))


def test_spellings_of_one_class() -> None:
    assert label_classes(["Yes", "no", " yes", "NO", 1, "1.0"]) == (("1", "no", "Yes"), [2, 1, 2, 1, 0, 0])


# --- every command ------------------------------------------------------------------------------------------


def audit(file: Path, place: Path) -> list[str]:
    light = ["--method", "grad-l2", "--metric", "aopc", "--operators", "mask", "--draws", "2"]
    return ["audit", str(file), "-m", "zoo:one-layer", *light, "--out", str(place / "run")]


def trial(file: Path, place: Path) -> list[str]:
    return ["trial", str(file), "-m", "zoo:one-layer", "--test", "uniform"]


def train(file: Path, place: Path) -> list[str]:
    other = file.with_name("train.jsonl")  # texts to test on are not trained on
    other.write_text(file.read_text().replace('", "label"', ' indeed", "label"'))
    light = ["--test", "frozen", "--seeds", "2", "--steps", "2", "--train", str(other)]
    return ["trial", str(file), "-m", "zoo:one-layer", *light]


def importance(file: Path, place: Path) -> list[str]:
    return ["heads", "importance", str(file), "-m", "zoo:one-layer"]


def prune(file: Path, place: Path) -> list[str]:
    return ["heads", "prune", str(file), "-m", "zoo:one-layer", "--steps", "1", "--draws", "1"]


def measure(file: Path, place: Path) -> list[str]:
    return ["features", "measure", str(place / "sae"), str(file), "-m", "zoo:sentiment"]


def probe(file: Path, place: Path) -> list[str]:
    return ["features", "probe", str(place / "sae"), str(file), "-m", "zoo:sentiment", "-k", "1"]


COMMANDS: list[Callable[[Path, Path], list[str]]] = [audit, trial, train, importance, prune, measure, probe]
OWN = {"seconds", "cost", "run", "made", "labels"}  # times, paths; features probe: names as they are written


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dictionary of zoo:sentiment."""
    from heedful.features.sae.autoencoder import SAE
    from heedful.features.sae.config import Config
    from heedful.models.sites.access import site_names, width

    folder, model = tmp_path_factory.mktemp("labels"), heedful.load("zoo:sentiment")
    site = next(name for name in site_names(model) if name.endswith("resid"))
    d = width(model, site)
    dec = torch.randn(8, d, generator=torch.Generator().manual_seed(0))
    config = Config("topk", d, 8, 2, source={"site": site})
    SAE(config, dec.T.contiguous() / d, torch.zeros(8), dec, torch.zeros(d)).save(folder / "sae")
    return folder


def _outcome(command: Any, labels: Sequence[Any], place: Path, folder: Path, capsys: Any) -> tuple[int, Any]:
    """(exit code, what it measured); errors on one line."""
    folder.mkdir(exist_ok=True)
    file, run = folder / "texts.jsonl", place / "run"
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, labels, strict=True)]
    file.write_text("\n".join(map(json.dumps, rows)) + "\n")
    for old in sorted(run.rglob("*"), reverse=True):
        old.rmdir() if old.is_dir() else old.unlink()
    code = main([*command(file, place), "--label-column", "label", "--json", "--quiet"])
    said = capsys.readouterr()
    return code, _bare(json.loads(said.out)) if said.out else said.err


def _bare(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _bare(value) for key, value in found.items() if key not in OWN}
    return [_bare(value) for value in found] if isinstance(found, list) else found


def _mixed(names: Sequence[str]) -> list[Any]:
    """TRUTH, row by row in another of these spellings."""
    return [SPELLINGS[names[row % len(names)]][label] for row, label in enumerate(TRUTH)]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_every_command_reads_every_spelling(command: Any, place: Path, tmp_path: Path, capsys: Any) -> None:
    code, expected = _outcome(command, _mixed(["names"]), place, tmp_path, capsys)
    assert code == 0
    groups = [list(SPELLINGS)]
    if command is probe:  # it has classes of its own: "1" need not be "positive"
        groups = [["names", "other case", "white space"], ["digits", "decimals", "numbers", "floats"]]
    for names in groups:
        assert _outcome(command, _mixed(names), place, tmp_path, capsys) == (0, expected), names
    other = _outcome(command, [1 - TRUTH[0], *TRUTH[1:]], place, tmp_path, capsys)
    assert other[0] == 0
    assert other[1] != expected, "labels matter"


@pytest.mark.parametrize("command", COMMANDS[:-1], ids=lambda command: command.__name__)
def test_every_command_refuses_what_is_no_label(
    command: Any, place: Path, tmp_path: Path, capsys: Any
) -> None:
    """A trial and a dictionary stop; an audit counts it; heads leave the text out and say why."""
    code, found = _outcome(command, [*WRONG, *TRUTH[6:]], place, tmp_path, capsys)
    if command is audit:
        assert (code, found["unknown"], found["labelled"]) == (0, 6, 4)
    elif command in (importance, prune):
        assert (code, int(np.sum(found["texts"]))) == (0, 4)
        assert str(found["notes"]).count("labels are: negative, positive") == 6
    else:
        assert code == 2
        assert "labels are: negative, positive" in found


@pytest.mark.parametrize("pair", SPELLINGS.values(), ids=SPELLINGS)
def test_explain_reads_a_target_and_a_contrast_alike(pair: tuple[Any, Any]) -> None:
    model = heedful.load(lambda texts: np.eye(2)[[len(t) % 2 for t in texts]], labels=NAMES[:2])
    x = model.encode("a good film")
    found = model.target(x, {"label": pair[1], "contrast": pair[0]})
    assert (found.index, found.contrast) == (1, 0)


def test_several_labels_in_heads_and_audit(shared: Any, tmp_path: Path) -> None:
    model = shared("bert-multi").model
    names = model.labels
    texts = ["the cat sat on the mat", "hello world"]
    first = [model.predict(model.encode(text), 1)[0][0] for text in texts]
    one = prepare(model, texts, [[names[0], 2], f" {names[2].lower()}, 0"])
    assert [case.wanted for case in one.cases] == [(1.0, 0.0, 1.0)] * 2
    others = [f"{first[0]}, {names[0]}", [name for name in names if name != first[1]]]
    found = heedful.audit(
        model, texts, labels=others, methods=["grad-l2"], metrics=["aopc"], draws=2, out=tmp_path / "run"
    )
    assert (found.labelled, found.right, found.unknown) == (2, 1, 0)
