"""What a result says to type gives the same, to the bit: a shell reads the line, the command runs it."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

import heedful
from heedful.cli.main import app, main
from heedful.cli.typed_command import OUTPUTS, typed
from heedful.comparisons.result import Comparison
from heedful.core.command_line import MAX_ARGUMENT_BYTES, command_line, param_text, param_value, quoted
from heedful.reports import reproduce

TEXT = "the service is not bad and the food is great"
ODD = '-it\'s "a" $HOME `b` \\n \\ 你好 é!\n\tthe cat; #low *?[a] \x1b[31m \u202edog'
TIMES = {"seconds", "run"}  # and the folder of an audit
Asked = list[str]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, shared: Callable[[str], Any]) -> None:
    """Every model name loads a tiny random one: GPT-2 for names with "lm", else BERT."""

    def load(name: str, **_: Any) -> Any:
        return shared("gpt2" if "lm" in name else "bert").model

    monkeypatch.setattr(heedful, "load", load, raising=False)


def words_of(line: str) -> list[str]:
    """As bash splits it."""
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


def bare(found: Any) -> Any:
    """Without times."""
    if isinstance(found, dict):
        return {key: bare(value) for key, value in found.items() if key not in TIMES}
    return [bare(value) for value in found] if isinstance(found, list) else found


def again(line: str | None, capsys: Any, *more: str) -> Any:
    assert line is not None
    assert "\n" not in line
    assert "\x1b" not in line
    program, *words = words_of(line)
    assert program == "heedful"
    before = words.index("--") if "--" in words else len(words)
    return run([*words[:before], *more, "--json", "--quiet", *words[before:]], capsys)


def run(words: list[str], capsys: Any) -> Any:
    assert main(words) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


# --- the line -----------------------------------------------------------------------------------------------


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=4))
@settings(max_examples=25)
def test_a_shell_reads_every_word_back(words: list[str]) -> None:
    line = " ".join(map(quoted, ["x", ODD, *words]))
    assert "\n" not in line
    assert words_of(line) == ["x", ODD, *words]


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]))
)


@given(st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5))
def test_every_parameter_can_be_spelled(value: Any) -> None:
    text = param_text(value)
    assert text is not None
    assert repr(param_value(text)) == repr(value)


def test_what_cannot_be_spelled_is_not() -> None:
    assert param_text(object()) is None
    assert param_text({1: 2}) is None, "JSON would make the key a text"
    assert param_text((1, np.float64(0.5), np.arange(2))) == "[1, 0.5, [0, 1]]"
    assert command_line("explain", [], "a" * (MAX_ARGUMENT_BYTES + 1)) is None
    assert command_line("explain", [("--target", "a\0b")], "x") is None


def test_what_looks_like_an_option_is_a_text() -> None:
    line = command_line("heads prune", [("--a", "-b"), ("--c", True), ("--d", [1, -0.5])], "-x")
    assert line == "heedful heads prune --a=-b --c --d 1 --d=-0.5 -- -x"
    assert command_line("explain", [("--seed", 1)], "-") == "echo - | heedful explain --seed 1"


# --- explain ------------------------------------------------------------------------------------------------

SMALL = ["--method", "occlusion", "--no-evidence"]
EXPLAIN: dict[str, Asked] = {
    "parameters": [
        *shlex.split("--method lime,occlusion --param lime.samples=40 --param lime.precision=0.3"),
        *shlex.split("--param lime.variant=published --param lime.bag=true --seed 3"),
        TEXT,
    ],
    "operator and parameters": [
        *shlex.split("--method occlusion --method lime --operator unk --param lime.operator=mask"),
        *shlex.split("--unit token --draws 23"),
        TEXT,
    ],
    "a budget": ["--method", "lime,kernel-shap,integrated-gradients", "--budget", "70", TEXT],
    "every method": ["--method", "all", "--no-evidence", "--budget", "120", "the cat sat"],
    "no method": ["the cat sat"],
    "an odd text": [*SMALL, "--", ODD],
    "a pair": [*SMALL, "--pair=--it's", "hello world"],
    "a contrast": [*SMALL, "--target", "Negative", "--contrast", "1.0", TEXT],
    "a long text": [*SMALL, "--long", "truncate", "the cat " * 60],
    "windows": [*SMALL, "--long", "window", "the cat sat " * 40],
    "a token": [*SMALL, "--model", "zoo:lm", "--target", " the", TEXT],
    "a position": [*SMALL, "--model", "zoo:lm", "--position", "3", TEXT],
    "after": [*SMALL, "--model", "zoo:lm", "--given", " the cat", TEXT],
    "a sequence": [*SMALL, "--model", "zoo:lm", "--sequence", " the cat", "--contrast", " a dog", TEXT],
    "pickle": [*SMALL, "--allow-pickle", TEXT],
}


@pytest.mark.parametrize("asked", EXPLAIN.values(), ids=EXPLAIN)
def test_explain_says_how_to_make_it_again(asked: Asked, toy: None, tmp_path: Path, capsys: Any) -> None:
    first = run(["explain", "--json", "--quiet", "--out", str(tmp_path / "run"), *asked], capsys)
    line = first["settings"]["command"]
    assert bare(again(line, capsys)) == bare(first)
    saved = Comparison.load(tmp_path / "run")
    assert reproduce.command(saved) == line
    assert line in unescape(_page(tmp_path / "run", capsys))
    made: dict[str, Any] = {}
    exec(reproduce.python(saved).replace('cmp.to_html("why.html")', ""), made)
    assert _scores(made["cmp"]) == _scores(saved)
    # what no command typed gets one that is derived: it must do the same
    kept = {name: value for name, value in saved.settings.items() if name != "command"}
    derived = reproduce.command(replace(saved, settings=kept))
    other = again(derived, capsys)
    assert [item["scores"] for item in other["attributions"]] == [
        item["scores"] for item in first["attributions"]
    ]
    assert other["evidence"] == first["evidence"]


def _page(folder: Path, capsys: Any) -> str:
    assert main(["report", str(folder)]) == 0
    capsys.readouterr()
    return (folder / "report.html").read_text(encoding="utf-8")


def _scores(found: Comparison) -> dict[str, list[float]]:
    return {name: found[name].scores.tolist() for name in found}


LIME = st.fixed_dictionaries(
    {"samples": st.integers(40, 60)},
    optional={
        "precision": st.floats(0.05, 0.9),
        "bandwidth": st.floats(0.1, 50),
        "variant": st.sampled_from(["adjusted", "published"]),
        "features": st.integers(1, 5),
        "bag": st.booleans(),
        "operator": st.sampled_from(["mask", "delete"]),
        "seed": st.integers(0, 9),
    },
)


@given(
    text=st.text("ab c'\"\\$-\n", min_size=4, max_size=12).filter(lambda text: len(text.split()) > 1),
    lime=LIME,
    occlusion=st.fixed_dictionaries({}, optional={"operator": st.sampled_from(["mask", "delete"])}),
    chosen=st.fixed_dictionaries(
        {"evidence": st.booleans()},
        optional={
            "unit": st.sampled_from(["word", "token"]),
            "seed": st.integers(0, 2**40),
            "target": st.sampled_from([0, 1, "Positive", {"contrast": 1, "label": 0}]),
            "draws": st.integers(19, 30),
            "budget": st.integers(60, 200),
        },
    ),
)
@settings(max_examples=5)
def test_an_explanation_made_in_python_gets_a_command(
    shared: Any, text: str, lime: Any, occlusion: Any, chosen: Any
) -> None:
    model, params = shared("bert").model, {"lime": lime, "occlusion": occlusion}
    first = heedful.explain(model, text, ["lime", "occlusion"], params=params, **chosen)
    first = replace(first, settings={**first.settings, "source": "zoo:sentiment"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heedful, "load", lambda name: model, raising=False)
        made: dict[str, Any] = {}
        exec(reproduce.python(first).replace('cmp.to_html("why.html")', ""), made)
        patch.setattr(heedful, "load", lambda name, **_: model, raising=False)
        out = io.StringIO()
        patch.setattr(sys, "stdout", out)
        _, *words = words_of(str(reproduce.command(first)))
        assert main(["explain", "--json", "--quiet", *words[1:]]) == 0
    typed = json.loads(out.getvalue())
    assert _scores(made["cmp"]) == _scores(first)
    assert {item["method"]: item["scores"] for item in typed["attributions"]} == _scores(first)
    expected = json.loads(first.to_json())
    assert typed["evidence"] == expected["evidence"]
    assert typed["internals"] == expected["internals"]


def test_what_no_command_can_say_has_none(shared: Any) -> None:
    model, lm = shared("bert").model, shared("gpt2").model

    def command(one: Any, text: Any, **more: Any) -> str | None:
        found = heedful.explain(one, text, ["occlusion"], **more)
        return reproduce.command(replace(found, settings={**found.settings, "source": "zoo:x"}))

    assert command(model, TEXT) is not None
    assert reproduce.command(heedful.explain(model, TEXT, ["occlusion"])) is None, "it has no name"
    assert command(model, TEXT, evidence=["aopc"]) is None, "a command weighs by its own two metrics"
    assert command(model, model.encode(TEXT)) is None
    assert command(lm, TEXT, target=5) is None, "5 would be the token of that text"
    assert command(lm, TEXT, target={"sequence": [5, 6]}) is None
    assert command(lm, TEXT, target={"given": [5, 6]}) is None
    each = heedful.explain_each(lm, "the cat", ["grad-l2"], max_new_tokens=2)[1]
    assert reproduce.command(replace(each, settings={**each.settings, "source": "zoo:x"})) is None
    assert "your own" in reproduce.python(each)


def test_text_of_standard_input_is_typed(toy: None, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("the cat\nsat é\n".encode()), "utf-8"))
    first = run(["explain", *SMALL, "--json", "--quiet"], capsys)
    assert bare(again(first["settings"]["command"], capsys)) == bare(first)


def test_a_run_that_was_interrupted_says_so(shared: Any) -> None:
    found = heedful.explain(shared("bert").model, TEXT, ["occlusion"])
    whole = replace(found, settings={**found.settings, "source": "zoo:x"})
    cut = replace(whole, settings={**whole.settings, "interrupted": "lime"})
    assert "This run was interrupted; the code below runs to the end." in cut.page()
    assert "interrupted" not in whole.page()


# --- the others ---------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with texts, to which paths are relative."""
    rows = [("a good film", "Positive"), ("a bad film", "0"), ("not good", "0.0"), ("the cat sat low", "1")]
    (tmp_path / "my texts.csv").write_text("review,label\n" + "".join(f"{a},{b}\n" for a, b in rows))
    (tmp_path / "some.txt").write_text("the cat sat\nhello world\n")
    (tmp_path / "others.txt").write_text("a dog ran\nnot bad at all\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


TABLE = ["my texts.csv", "--text-column", "review", "--label-column", "label"]
AUDITS: dict[str, Asked] = {
    "named": [
        *TABLE,
        *shlex.split("--method occlusion,grad-l2 --method lime --metric aopc --draws 3"),
        *shlex.split("--operators mask,delete --seed 5 --unit token --limit 3 --shard 2"),
    ],
    "until decided": [
        "--until-decided",
        *TABLE,
        *shlex.split("--method occlusion --metric aopc --long truncate"),
    ],
}
TRIALS: dict[str, Asked] = {
    "two tests": [*TABLE, *shlex.split("--test permutation --test uniform --permutations 3 --limit 3")],
    "adversary": [
        *TABLE,
        *shlex.split("--test adversary --starts 1 --climb 4 --seed 7 --limit 2"),
        "--epsilon",
        "0.30000000000000004",
    ],
}
STEER = [
    "--model",
    "zoo:lm",
    "--towards",
    "some.txt",
    "--away",
    "others.txt",
    "--site",
    "blocks.1.resid",
    "--max-new-tokens",
    "3",
]
STEERS: dict[str, Asked] = {
    "a direction": [*STEER, "--strength", "-1.5", "--strategy", "sample", "--seed", "4", "the cat"],
    "places": [*STEER, "--positions", "0,1", "--allow-pickle", "--", "-the cat"],
    "a feature": [
        *shlex.split("--model zoo:lm --feature 3=+2 -f 1=0 --texts some.txt --max-new-tokens 3"),
        "--sae",
        "sae dir",
        "the cat",
    ],
    "a sweep": [
        *shlex.split("--model zoo:lm --feature 3=1 --sweep 1,2 --prompts others.txt --threshold 0.1"),
        *shlex.split("--texts some.txt --max-new-tokens 2 --sae"),
        "sae dir",
        "the cat",
    ],
}
GENERATED: dict[str, Asked] = {
    "sampled": ["--strategy", "top-p", "--top-p", "0.7", "--temperature", "1.3", "--seed", "3", "the cat"],
    "all": ["--all", "--top-k", "3", "--beams", "2", "--max-new-tokens", "2", "--", ODD],
    "why": [
        *shlex.split("--why lime --why occlusion,grad-l2 --unit token --operator delete --budget 90"),
        "--max-new-tokens",
        "2",
        "the cat sat on the mat",
    ],
}


@pytest.mark.parametrize("asked", AUDITS.values(), ids=AUDITS)
def test_audit_says_how_to_make_it_again(asked: Asked, toy: None, place: Path, capsys: Any) -> None:
    words = ["audit", "--json", "--out", "first", *asked]
    assert main(words) == 0
    said = capsys.readouterr()
    first = json.loads(said.out)
    assert said.err.rstrip().endswith(f"Reproduce this: {first['command']}")
    second = again(first["command"], capsys, "--out", "second")
    assert bare(second) == bare(first)
    assert (place / "second/result.json").read_bytes() == (place / "first/result.json").read_bytes()
    shards = sorted(path.relative_to("first") for path in Path("first/shards").rglob("*.parquet"))
    assert shards
    for path in shards:
        assert (place / "first" / path).read_bytes() == (place / "second" / path).read_bytes()
    assert first["command"] in unescape(_page(Path("first"), capsys))
    assert main(["report", "first", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["command"] == first["command"]


@pytest.mark.parametrize("asked", TRIALS.values(), ids=TRIALS)
def test_trial_says_how_to_make_it_again(asked: Asked, toy: None, place: Path, capsys: Any) -> None:
    assert main(["trial", "--json", "--out", "kept", *asked]) == 0
    said = capsys.readouterr()
    first = json.loads(said.out)
    line = first["settings"]["command"]
    assert said.err.rstrip().endswith(f"Reproduce this: {line}")
    assert bare(again(line, capsys)) == bare(first)
    assert line in unescape(_page(Path("kept"), capsys))


@pytest.mark.parametrize("asked", STEERS.values(), ids=STEERS)
def test_steer_says_how_to_make_it_again(
    asked: Asked, toy: None, place: Path, shared: Any, capsys: Any
) -> None:
    from heedful.features.sae.autoencoder import SAE
    from heedful.features.sae.config import Config

    dec = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))
    config = Config("topk", 32, 8, 2, source={"site": "blocks.1.resid"})
    SAE(config, dec.T.contiguous() / 32, torch.zeros(8), dec, torch.zeros(32)).save(place / "sae dir")
    assert main(["steer", "--json", "--html", "it.html", *asked]) == 0
    said = capsys.readouterr()
    first = json.loads(said.out)
    line = first["settings"]["command"]
    assert said.err.rstrip().endswith(f"Reproduce this: {line}")
    assert bare(again(line, capsys)) == bare(first)
    assert line in unescape(Path("it.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("asked", GENERATED.values(), ids=GENERATED)
def test_generate_says_how_to_make_it_again(asked: Asked, toy: None, capsys: Any) -> None:
    assert main(["generate", "--json", *asked]) == 0
    said = capsys.readouterr()
    first = json.loads(said.out)
    assert said.err.rstrip().endswith(f"Reproduce this: {first['command']}")
    assert bare(again(first["command"], capsys)) == bare(first)


def _changed(parameter: Any, hint: Any, file: Path) -> list[str]:
    """What to type so that it has another value than its default; `hint` is its type."""
    if parameter.param_type_name == "argument":
        return [str(file)]
    option = max(parameter.opts, key=len)
    if hint is bool:
        return [parameter.secondary_opts[0] if parameter.default is True else option]
    kinds = {hint, *get_args(hint)} - {type(None)}
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    if choices:
        value = next(one for one in choices if one != parameter.default)
    else:
        free = file.with_name("new") if option in ("--out", "--html") else file  # not there yet
        value = "67" if int in kinds else "0.37" if float in kinds else str(free)
    return [option, value, option, value] if parameter.multiple else [option, value]


@pytest.mark.parametrize("name", ["explain", "audit", "trial", "steer", "generate"])
def test_every_option_is_in_the_line_or_says_where_it_goes(name: str, place: Path) -> None:
    """Each option gets another value than its default; a shell and the command read the line back."""
    command: Any = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    options = [one for one in command.params if one.name != "help"]
    options.sort(key=lambda one: one.param_type_name == "argument")
    hints = get_type_hints(command.callback)
    words = [word for one in options for word in _changed(one, hints[one.name], place / "my texts.csv")]
    plain = command.make_context(name, [str(place / "some.txt")]).params
    with command.make_context(name, words) as context:
        line = typed()
    assert line is not None
    parsed = command.make_context(name, words_of(line)[2:]).params
    for one in options:
        assert context.params[one.name] != plain[one.name], f"{one.name} has its default value"
        kept = plain if one.name in OUTPUTS else context.params
        assert parsed[one.name] == kept[one.name], one.name


def test_every_output_option_is_one_of_a_command() -> None:
    commands: Any = typer.main.get_command(app)
    names = ("explain", "audit", "trial", "steer", "generate")
    assert {one.name for name in names for one in commands.commands[name].params} >= OUTPUTS


def test_a_printed_line_is_a_program(capsys: Any) -> None:
    first = run(["explain", "-m", "zoo:one-layer", *SMALL, "--json", "--quiet", TEXT], capsys)
    program, *words = words_of(first["settings"]["command"])
    assert program == "heedful"
    line = [sys.executable, "-m", program, *words, "--json", "--quiet"]
    env = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    done = subprocess.run(line, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert bare(json.loads(done.stdout)) == bare(first)
