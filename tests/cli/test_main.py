"""The command line: one JSON document, one clear line for a mistake, quick help, examples that work."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful.cli.main import app, main
from heedful.comparisons.result import Comparison
from heedful.core import registry

TEXT = "the service is not bad and the food is great"
COMMANDS = [
    "",
    "explain",
    "generate",
    "doctor",
    "report",
    "zoo",
    "zoo list",
    "zoo pull",
    "zoo card",
    "zoo path",
]


LOAD, ROOT = heedful.load, Path(__file__).parents[2]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, shared: Callable[[str], Any]) -> Any:
    """Every model name loads a tiny random one: BERT, GPT-2 for names with "lm", BART for the titler."""

    def load(name: str, **_: Any) -> Any:
        return shared("gpt2" if "lm" in name else "bart" if "titler" in name else "bert").model

    monkeypatch.setattr(heedful, "load", load, raising=False)
    return shared("bert").model


def pipe(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))


def run(*arguments: str) -> int:
    return main(list(arguments))


def mistake(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must fail as a user's mistake; return its one line."""
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("heedful: ")
    assert err.count("\n") == 1
    return err


# --- help ------------------------------------------------------------------------------------------


def test_help_and_version_import_nothing_heavy() -> None:
    code = (
        "import sys; from heedful.cli.main import main\n"
        f"for words in {[*COMMANDS]!r}:\n    assert main([*words.split(), '--help']) == 0\n"
        "assert main(['--version']) == 0\n"
        "heavy = {'torch', 'transformers', 'scipy', 'pyarrow', 'tokenizers', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "heedful 0." in done.stdout


def test_module_runs_as_the_script_does() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "heedful", "nonsense"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "heedful: No such command 'nonsense'.\n"


def test_no_arguments_show_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    assert "Commands:" in capsys.readouterr().out
    assert run("zoo") == 0
    assert "pull" in capsys.readouterr().out


def examples() -> list[str]:
    """Every example line of every --help."""
    commands = [app.registered_callback, *app.registered_commands]
    helps = [command.callback.__doc__ or "" for command in commands if command and command.callback]
    return [
        line.strip() for text in helps for line in text.splitlines() if re.match(r" *(heedful|echo) ", line)
    ]


def reviews(folder: Path) -> None:
    """The files that the examples of `heedful audit` and `heedful trial` name."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = [("the food is great", "positive"), ("not bad at all", "negative")]
    table = [{"text": text, "review": text, "label": label} for text, label in rows]
    lines = [",".join(row.values()) for row in table]
    for name in ("reviews.csv", "texts.csv"):
        (folder / name).write_text("\n".join(["text,review,label", *lines]) + "\n", encoding="utf-8")
    (folder / "reviews.jsonl").write_text("\n".join(map(json.dumps, table)) + "\n", encoding="utf-8")
    parquet.write_table(pa.Table.from_pylist(table), folder / "reviews.parquet")
    mine = [{"row": row, "method": "mine", "scores": [0.1] * 4, "fitted_by": "nothing"} for row in range(2)]
    (folder / "mine.jsonl").write_text("\n".join(map(json.dumps, mine)) + "\n", encoding="utf-8")
    words = ("cat", "dog", "mat", "house", "world")
    marked = [
        {
            "text": f"the {word} is {last}",
            "label": ("negative", "positive")[last == "good"],
            "marks": [0, 0, 0, 1],
        }
        for word in words
        for last in ("good", "bad")
    ]
    (folder / "m.jsonl").write_text("\n".join(map(json.dumps, marked)) + "\n", encoding="utf-8")
    lines = [f"{row['text']},{row['label']}" for row in marked]
    (folder / "train.csv").write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")


def dictionary(folder: Path) -> None:
    """The files that the examples of `heedful steer` name; every feature fires."""
    import torch

    from heedful.features.sae.autoencoder import SAE
    from heedful.features.sae.config import Config

    weights = (torch.zeros(32, 300), torch.ones(300), torch.ones(300, 32), torch.zeros(32))
    SAE(Config("relu", 32, 300, source={"site": "blocks.1.resid"}), *weights).save(folder / "sae")
    for name in ("speeches", "war", "peace"):
        (folder / f"{name}.txt").write_text(f"{name} is not bad\n", encoding="utf-8")


def of_pictures(folder: Path) -> heedful.Model:
    """A black box in the place of a model of pictures, and the files that the examples name."""
    import numpy as np
    from PIL import Image

    from heedful.models.image_function import ImageFunction
    from heedful.models.image_reader import ImageReader

    (folder / "photos").mkdir(exist_ok=True)
    for seed, name in enumerate(("seven.png", "photos/a.png", "photos/b.png")):
        pixels = np.random.default_rng(seed).integers(0, 256, (28, 28, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / name)
    (folder / "photos.csv").write_text("path,boxes\nphotos/a.png,0 0 9 9\nphotos/b.png,5 5 20 20\n")
    halves = lambda pictures: [[p[:, :14].mean(), p[:, 14:].mean()] for p in pictures]  # noqa: E731
    return ImageFunction(halves, ImageReader((28, 28)), ["left", "right"], "halves")


@pytest.mark.parametrize("line", sorted(set(examples())))
def test_examples_of_the_help_work_when_pasted(
    line: str, toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if line.startswith("heedful serve"):
        pytest.skip("it serves until Ctrl-C; tests/server starts and stops it")
    monkeypatch.chdir(tmp_path)
    if line.startswith("echo"):
        said, line = line.split("|")
        pipe(monkeypatch, shlex.split(said)[1].encode())
    if line.startswith("heedful report"):
        assert run("explain", TEXT, "--out", "run/") == 0
    if "--engine ray" in line:
        pytest.skip("its workers cannot be given the tiny model; tests/engine starts Ray")
    if line.startswith(("heedful audit", "heedful trial")):
        reviews(tmp_path)
    arguments = shlex.split(line)[1:]
    if "zoo:digits-vit" in line and not line.startswith("heedful doctor"):
        model = of_pictures(tmp_path)
        real = LOAD if line.startswith("heedful attention") else None  # a function shows no heads
        monkeypatch.setattr(heedful, "load", real or (lambda *given, **options: model))
    if "zoo:tiny-clip" in line:  # small enough to be run as it is
        shutil.copy(ROOT / "docs" / "examples" / "scenes" / "1.png", tmp_path / "scene.png")
        (tmp_path / "scenes.csv").write_text("path,caption\nscene.png,a red seven\n")
        monkeypatch.setattr(heedful, "load", LOAD)
    if line.startswith("heedful steer"):
        dictionary(tmp_path)
        if "zoo:lm" in arguments:  # too wide for the toy, which needs one of its own, and texts
            arguments = ["sae/" if word == "zoo:lm" else word for word in arguments] + ["--texts", "war.txt"]
        arguments += ["--max-new-tokens", "4"]
    arguments = [" the" if word == " time" else word for word in arguments]  # a token of the toy vocabulary
    if line.startswith("heedful trial"):
        arguments += ["--permutations", "2", "--climb", "2", "--steps", "2", "--seeds", "2"]
        arguments += ["--test", "frozen"] if "--train" in line else []  # the others have tests of their own
    assert run(*arguments) == 0, capsys.readouterr().err


# --- explain ---------------------------------------------------------------------------------------


def test_json_is_one_document_and_everything_else_is_on_stderr(
    toy: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, folder = tmp_path / "new" / "why.html", tmp_path / "run"
    assert (
        run("explain", TEXT, "--json", "--html", str(page), "--out", str(folder), "--method", "occlusion")
        == 0
    )
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert [item["method"] for item in data["attributions"]] == ["occlusion", "random"]
    assert "why.html" in err
    assert "<!DOCTYPE html>" in page.read_text()
    assert Comparison.load(folder).to_dict() == data


def test_explains_what_python_explains(toy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    methods = ["--method", "occlusion,grad-l2", "--method", "random", "--operator", "delete"]
    target = ["--target", "negative", "--contrast", "positive"]
    assert run("explain", TEXT, "--json", *methods, *target, "--seed", "7") == 0
    data = json.loads(capsys.readouterr().out)
    expected = heedful.explain(
        toy,
        TEXT,
        ["occlusion", "grad-l2", "random"],
        {"label": "negative", "contrast": "positive"},
        seed=7,
        params={"occlusion": {"operator": "delete"}},
    )
    for item in data["attributions"]:
        assert item["scores"] == pytest.approx(expected[item["method"]].scores.tolist(), abs=1e-9)
    assert data["target"]["name"] == "negative rather than positive"
    assert data["settings"]["params"] == {"occlusion": {"operator": "delete"}}


def test_the_command_on_the_page_repeats_the_run(toy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from heedful.cli.run_explain import ExplainRequest
    from heedful.cli.run_explain import run as explain
    from heedful.reports.reproduce import command, python

    pair, target = ("it's", "-b <c>"), {"label": "negative"}
    wish = ExplainRequest(
        "zoo:sentiment", pair, ["occlusion"], target, "token", "unk", [], 3, 99, "truncate", False
    )
    first = explain(wish)
    line = command(first)
    assert line is not None
    assert run(*shlex.split(line)[1:], "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert again["attributions"][0]["scores"] == pytest.approx(first["occlusion"].scores.tolist(), abs=1e-9)
    names: dict[str, Any] = {}
    exec(python(first).replace('cmp.to_html("why.html")', ""), names)
    assert names["cmp"]["occlusion"].scores.tolist() == pytest.approx(
        first["occlusion"].scores.tolist(), abs=1e-9
    )


def test_text_from_standard_input(
    toy: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["explain"], ["explain", "-"]):
        pipe(monkeypatch, b"\xef\xbb\xbfthe food is great\r\n")
        assert run(*arguments, "--json", "--method", "random") == 0
        assert json.loads(capsys.readouterr().out)["x"]["text"] == "the food is great"


def test_csv_has_a_line_for_each_method_and_word(toy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", TEXT, "--csv", "--method", "occlusion") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "method,word,start,end,score,stderr"
    assert len(lines) == 1 + 2 * len(TEXT.split())
    assert [line.split(",")[0] for line in lines[1:]] == ["occlusion"] * 10 + ["random"] * 10


def test_text_view_is_plain_when_piped(toy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", TEXT) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "(control)" in out


def test_chat_from_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from heedful.cli.console import read_chat

    file = tmp_path / "chat.json"
    file.write_text('[{"role": "user", "content": "hi", "name": "x"}]')
    assert read_chat(str(file)) == [{"role": "user", "content": "hi"}]
    for content, said in (
        ("{", "not JSON"),
        ("[]", "no chat"),
        ('["x"]', "no chat"),
        ('[{"role": 1}]', "no chat"),
    ):
        file.write_text(content)
        assert said in mistake(capsys, "explain", "--chat", str(file))
    assert "No such file" in mistake(capsys, "explain", "--chat", str(tmp_path / "none.json"))
    assert "takes the place" in mistake(capsys, "explain", "text", "--chat", str(file))


# --- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", ""], "the text is empty"),
        (["explain", " \n "], "the text is empty"),
        (["explain", "a\udcff"], "not valid UTF-8"),
        (["explain", "x", "--unit", "letter"], "Use one of: token, word, sentence"),
        (["explain", "x", "--seed", "one"], "--seed"),
        (["explain", "x", "--budget", "0"], "--budget"),
        (["explain", "x", "--long", "cut"], "'error', 'truncate', 'window'"),
        (["explain", "x", "--nonsense"], "--nonsense"),
        (["explain", "x", "--method", "oclusion"], "Did you mean 'occlusion'"),
        (["explain", "x", "--method", ","], "no method was named"),
        (["explain", "x", "--json", "--csv"], "Choose one"),
        (["explain", "x", "--target", "splendid"], "negative, positive"),
        (["explain", "x", "--target", "positive", "--contrast", "positive"], "contrasted with itself"),
        (["explain", "x", "--method", "grad-l2", "--operator", "mask"], "none of these methods removes"),
        (["explain", "x", "--operator", "hide"], "hide"),
        (["explain", "x", "--param", "occlusion"], "METHOD.NAME=VALUE"),
        (["explain", "x", "--param", "occlusion.colour=3", "--method", "occlusion"], "no parameter colour"),
        (["explain", "x " * 200], "the model reads at most 64"),
        (["generate", "x", "--model", "zoo:sentiment"], "cannot write text"),
        (["generate", "x", "--strategy", "luck"], "greedy"),
        (["generate", "x", "--top-p", "2"], "--top-p"),
        (["doctor"], "MODEL"),
        (["report", "no-such-run"], "no-such-run"),
        (["zoo", "pull"], "no model was named"),
        (["zoo", "card", "sentimnt"], "did you mean sentiment"),
        (["zoo", "path", "nothing"], "zoo list"),
        (["explian"], "explain"),
    ],
)
def test_a_mistake_is_one_clear_line(
    toy: Any, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert said in mistake(capsys, *arguments)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the text is empty"),
        (b"\x7fELF\x02\x01\xff", "not UTF-8 text: byte 0xff at position 6"),
        (b"abc\0def", "binary"),
        ("café".encode("latin-1"), "byte 0xe9 at position 3"),
    ],
)
def test_standard_input_that_is_no_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    pipe(monkeypatch, content)
    assert said in mistake(capsys, "explain")


def test_models_that_cannot_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    for source in (str(tmp_path), str(tmp_path / "none"), "zoo:nothing", ""):
        mistake(capsys, "doctor", source)
        mistake(capsys, "explain", "x", "--model", source)


def test_a_page_that_cannot_be_written(toy: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot write" in mistake(capsys, "explain", "x", "--method", "random", "--html", str(tmp_path))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"words " * 200_000, rb"heedful: the text has more than [\d,]+ tokens \(1,200,000 characters\)"),
        (b"w" * 1_000_000, b"heedful: 1,000,000 characters without a break are one unknown word"),
    ],
    ids=["words", "no break"],
)
def test_a_million_characters_are_refused_with_their_number(
    text: bytes, told: bytes, toy: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe(monkeypatch, text)
    assert re.match(told.decode(), mistake(capsys, "explain"))


def test_more_than_ten_million_characters_are_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe(monkeypatch, b"word " * 2_100_000)
    assert "over 10,000,000 characters" in mistake(capsys, "explain")


def test_ctrl_c_is_quiet(
    toy: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(heedful, "load", stop, raising=False)
    assert run("explain", "x") == 130
    assert capsys.readouterr() == ("", "")


def test_a_dry_run_tells_the_cost_and_explains_nothing(
    toy: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "why.html"
    wish = ("explain", TEXT, "--method", "occlusion,lime,grad-l2", "--dry-run", "--html", str(page))
    assert run(*wish) == 0
    out, err = capsys.readouterr()
    assert re.search(r"^occlusion +11 ", out, re.M)
    assert re.search(r"^lime +30 to 256 ", out, re.M)
    # two metrics, three bins that differ, three methods and 59 random orders (a test of three methods), the
    # text and nothing, and ten words alone
    evidence = 2 * 3 * (3 + 59) + 2 + 10
    assert re.search(rf"^evidence +{evidence} ", out, re.M)
    assert re.search(rf"^together +up to {evidence + 268} ", out, re.M)
    assert (err, page.exists()) == ("", False)
    assert run(*wish, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["method"] for row in data["methods"]] == ["random", "grad-l2", "occlusion", "lime"]
    assert data["rows"] == evidence + 268
    assert "--dry-run has no CSV" in mistake(capsys, *wish, "--csv")
    assert "left out" not in out


def test_all_names_what_it_leaves_out_as_dear(toy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    able = [s.method for s in registry.support(toy) if s.ok]
    expensive = [name for name in able if registry.get(name).expensive]
    assert {"anchors", "search"} <= set(expensive)
    line = f"skipped (expensive): {', '.join(expensive)}; run with --method NAME"
    for more in (("--dry-run",), ("--no-evidence",)):
        assert run("explain", "the cat sat", "--method", "all", *more) == 0
        assert " ".join(capsys.readouterr().out.split()).count(line) == 1
    assert run("explain", "the cat sat", "--method", "occlusion,anchors", "--no-evidence") == 0
    assert "left out" not in capsys.readouterr().out


@pytest.mark.parametrize("patience", [0.0, 1e9])
def test_a_long_run_says_what_it_will_cost_and_where_it_stands(
    patience: float, toy: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("heedful.cli.console.PATIENCE", patience)
    wish = ("explain", TEXT, "--method", "occlusion,grad-l2", "--json")
    assert run(*wish) == 0
    out, err = capsys.readouterr()
    json.loads(out)
    if patience:
        assert err == ""
        return
    lines = err.splitlines()
    assert re.fullmatch(r"up to \d+ model inputs, roughly .*; --budget N caps it, Ctrl-C keeps .*", lines[0])
    assert "method 2 of 3: grad-l2" in lines
    assert re.fullmatch(r"method 4 of 4: evidence: (\d+)/\1", lines[-1])
    assert run(*wish, "--budget", "5") == 0
    assert capsys.readouterr().err.startswith("up to 5 model inputs")
    assert run(*wish, "--quiet") == 0
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar_with_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    from heedful.cli.console import progress_bar
    from heedful.core.progress import Step

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("loading") as say:
        say(Step("lime", 5, 18, done=312, total=512))
    assert "method 5 of 18: lime" in screen.getvalue()
    assert "312/512" in screen.getvalue()
    with progress_bar("loading", silent=True) as say:
        say(Step("unheard", done=1, total=2))
    assert "unheard" not in screen.getvalue()


# --- the other commands ----------------------------------------------------------------------------


def test_generate_every_strategy(toy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["greedy", "sample", "temperature", "top-k", "top-p", "beam"]
    assert run("generate", "the", "--all", "--max-new-tokens", "4", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert list(data["continuations"]) == names
    assert run("generate", "the", "--all", "--max-new-tokens", "4") == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"^{name} ", shown, re.M) for name in names)
    assert run("generate", "the", "--max-new-tokens", "4", "--json") == 0
    assert json.loads(capsys.readouterr().out)["continuations"] == {"greedy": data["continuations"]["greedy"]}


def test_doctor_gives_the_table_and_the_reasons(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from heedful.models.function import FunctionModel

    def shout(texts: list[str]) -> list[float]:
        return [float(len(text)) for text in texts]

    monkeypatch.setattr(heedful, "load", lambda *_, **__: FunctionModel(shout), raising=False)
    assert run("doctor", "anything", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    found = {row["method"]: row for row in data["methods"]}
    assert (data["kind"], data["capabilities"]) == ("function", ["values"])
    assert found["occlusion"]["ok"]
    assert not found["grad-l2"]["ok"]
    assert "gradients" in found["grad-l2"]["why"]
    assert run("doctor", "anything") == 0
    shown = capsys.readouterr().out
    assert re.search(r"^grad-l2 +no +it needs gradients", shown, re.M)
    assert re.search(r"^occlusion +yes", shown, re.M)


def test_report_needs_no_model(toy: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder = tmp_path / "run"
    assert run("explain", TEXT, "--out", str(run_folder), "--method", "occlusion", "--json") == 0
    saved = json.loads(capsys.readouterr().out)
    code = (
        "import sys; from heedful.cli.main import main; code = main(sys.argv[1:]);"
        "sys.exit(code or ('torch imported' if 'torch' in sys.modules else 0))"
    )
    command = [
        sys.executable,
        "-c",
        code,
        "report",
        str(run_folder),
        "--html",
        str(tmp_path / "why.html"),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == saved | {"verified": False}
    assert "<mark" in (tmp_path / "why.html").read_text()
    assert run("report", str(run_folder)) == 0
    assert (run_folder / "report.html").exists()


def test_zoo_list_has_every_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("zoo", "list", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"one-layer", "sentiment", "lm"} <= {row["name"] for row in rows if row["embedded"]}
    assert run("zoo", "list") == 0
    assert "zoo:sentiment" in capsys.readouterr().out


def test_generate_says_why(toy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("generate", "the cat", "--max-new-tokens", "3", "--why", "grad-l2,occlusion")
    assert run(*asked, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["why"]) == 3
    methods = [[item["method"] for item in step["attributions"]] for step in found["why"]]
    assert methods == [["grad-l2", "occlusion", "random"]] * 3
    assert run(*asked) == 0
    shown = capsys.readouterr().out
    for part in ("grad-l2", "occlusion", "random (control)", "strongest words"):
        assert part in shown
    first, second, *_ = shown.splitlines()
    assert first == f"the cat{found['continuations']['greedy']}"
    assert second.startswith("By grad-l2, the words of the prompt that mattered most are")
    assert "\n\n\n" not in shown
    assert run(*asked, "--all") == 2
    assert "--why explains one continuation" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["zoo:lm", "zoo:titler"])
def test_generate_says_how_much_lies_on_the_text(
    model: str, toy: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (
        "generate",
        "the cat sat",
        "--model",
        model,
        "--max-new-tokens",
        "3",
        "--why",
        "grad-l2,occlusion",
    )
    assert run(*asked, "--json") == 0
    first, *later = json.loads(capsys.readouterr().out)["why"]
    assert (first["input_shares"], first["input_share_by_count"]) == ({}, None)
    for step in later:
        assert set(step["input_shares"]) == {"grad-l2", "occlusion", "random"}
        assert 0 < step["input_shares"]["grad-l2"] < 1
        assert 0 < step["input_share_by_count"] < 1
        assert [item["written"] is not None for item in step["attributions"]] == [model == "zoo:titler"] * 3
    assert run(*asked) == 0
    shown = capsys.readouterr().out
    assert "text's" in shown
    assert f"{100 * later[-1]['input_shares']['grad-l2']:.0f} % text" in shown


def test_explain_given_shows_what_was_written(
    toy: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = ["explain", "the cat sat", "--model", "zoo:titler", "--method", "occlusion", "--given", "the mat"]
    assert run(*asked, "--html", str(tmp_path / "page.html")) == 0
    shown = capsys.readouterr().out
    assert "after the text and “the mat”" in " ".join(shown.split())
    assert run(*asked, "--verbose") == 0
    assert "The text, and what was already written" in capsys.readouterr().out
    assert 'class="part written"' in (tmp_path / "page.html").read_text()


def test_generate_says_why_within_its_means(toy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Unit, operator and budget reach every token, as Python's `explain_each` takes them."""
    prompt, methods = "the cat sat on the low house", ["occlusion", "lime"]
    asked = ("generate", prompt, "--max-new-tokens", "2", "--why", ",".join(methods), "--json")
    own = ("--unit", "token", "--operator", "pad", "--budget", "60", "--seed", "3")
    assert run(*asked, *own) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["interrupted"] is False
    model = heedful.load("zoo:lm")
    expected = heedful.explain_each(
        model,
        prompt,
        methods,
        "token",
        3,
        60,
        max_new_tokens=2,
        params={name: {"operator": "pad"} for name in methods},
    )
    for step, wanted in zip(found["why"], expected, strict=True):
        assert sum(item["cost"]["unique"] for item in step["attributions"]) <= 60
        for item in step["attributions"]:
            assert item["scores"] == pytest.approx(wanted[item["method"]].scores.tolist(), abs=1e-9)
        assert step["attributions"][0]["params"]["operator"] == "pad"
    assert "none of these methods removes" in mistake(
        capsys, "generate", "the", "--why", "grad-l2", "--operator", "pad"
    )
    assert "are for --why" in mistake(capsys, "generate", "the", "--budget", "9")


@pytest.mark.parametrize("patience", [0.0, 1e9])
def test_generate_says_what_a_long_run_will_cost(
    patience: float, toy: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("heedful.cli.console.PATIENCE", patience)
    asked = ("generate", "the cat", "--max-new-tokens", "3", "--why", "occlusion")
    assert run(*asked) == 0
    err = capsys.readouterr().err
    again = "Reproduce this: heedful generate 'the cat' --model zoo:lm --max-new-tokens 3 --why occlusion\n"
    if patience:
        assert err == again
        return
    cost = [line for line in err.splitlines() if line.startswith("up to")]
    assert len(cost) == 1
    rows = int(re.fullmatch(r"up to (\d+) model inputs, roughly .*; --budget N caps it, .*", cost[0])[1])
    model = heedful.load("zoo:lm")
    steps = heedful.explain_each(model, "the cat", "occlusion", max_new_tokens=3)
    assert rows == 3 * steps[-1]["occlusion"].cost.forwards
    assert run(*asked, "--budget", "50") == 0
    assert "--budget N" not in capsys.readouterr().err
    assert run(*asked, "--quiet") == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("as_json", [True, False])
def test_generate_keeps_the_tokens_that_are_finished(
    as_json: bool, toy: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from heedful.comparisons import explain_tokens

    monkeypatch.setattr("heedful.comparisons.execute._interrupted_at", float("-inf"))
    explain, calls = explain_tokens.explain, []

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return explain(*args, **kwargs)

    monkeypatch.setattr(explain_tokens, "explain", interrupted)
    asked = ("generate", "the cat", "--max-new-tokens", "4", "--why", "occlusion")
    assert run(*asked, *(["--json"] if as_json else [])) == 130
    out, err = capsys.readouterr()
    again, stopped = err.splitlines()
    assert (
        again
        == "Reproduce this: heedful generate 'the cat' --model zoo:lm --max-new-tokens 4 --why occlusion"
    )
    assert stopped == "interrupted at token 3 of 4: those before are explained"
    if as_json:
        data = json.loads(out)
        assert (len(data["why"]), data["interrupted"]) == (2, True)
    else:
        assert "occlusion" in out


# --- targets of language models ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "spec"),
    [
        (
            ["--sequence", " the cat", "--contrast", " a dog ran"],
            {"sequence": " the cat", "contrast": " a dog ran"},
        ),
        (["--target", " cat", "--given", " the low"], {"label": " cat", "given": " the low"}),
        (["--given", " the low"], {"given": " the low"}),
    ],
    ids=["rather than", "given", "given alone"],
)
def test_continuations_are_named_as_in_python(
    options: list[str], spec: dict[str, Any], toy: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = ["explain", "the cat sat on", "--model", "zoo:lm", "--method", "occlusion,grad-l2", *options]
    assert run(*asked, "--json", "--out", str(tmp_path / "run")) == 0
    data = json.loads(capsys.readouterr().out)
    model = heedful.load("zoo:lm")
    expected = heedful.explain(model, "the cat sat on", ["occlusion", "grad-l2"], spec)
    assert data["target"]["name"] == expected.target.name
    for item in data["attributions"]:
        assert item["scores"] == pytest.approx(expected[item["method"]].scores.tolist(), abs=1e-9)
    from heedful.reports.reproduce import command

    line = command(Comparison.load(tmp_path / "run"))
    assert line is not None
    assert run(*shlex.split(line)[1:], "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert again["target"] == data["target"]
