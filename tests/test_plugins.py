"""An explainer, a metric and a test of the trial from another distribution, one file each: nothing of heedful
is touched; they are on the command line, in the audit, on the pages, in the served list and in the docs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.reports.opened import without_note

ROOT = Path(__file__).parents[1]

EXPLAINER = '''
"""Score: the number of letters of a word."""
import numpy as np
from heedful.core.attribution import Attribution
from heedful.core.registry import explainer

@explainer("letters", needs={"values"}, takes=("unit", "operator"), cite="Plugin 2026")
def letters(q, *, power: int = 1) -> Attribution:
    """Longer tokens score higher.

    Limitations: What it asks the model for, it throws away, and it says nothing of how it asked.
    """
    q.values(np.zeros((1, len(q.units)), dtype=bool))
    return q.answer(np.array([len(label) ** power for label in q.units.labels], dtype=float))
'''
METRIC = '''
"""f(x) less f(x without the best word)."""
from heedful.core.registry import metric
from heedful.metrics.faithfulness import Probe, ranked, tops

@metric("best-word-drop", kind="removal", better="high", cite="Plugin 2026", family="remove-top")
def best_word_drop(scores, rng) -> Probe:
    """How far the output falls when the best word goes.

    Limitations: One word is not the text.
    """
    return Probe(~tops(ranked(scores, rng), [1]), lambda values, ends: float(ends.full - values.mean()))
'''
TRIAL_TEST = '''
"""How many words the texts have."""
from dataclasses import dataclass
from heedful.core.charts import Scatter, Series
from heedful.trials.registry import TrialWords, trial_test
from heedful.trials.rows import TrialRow

@dataclass(frozen=True)
class Lengths:
    words: tuple[int, ...]

    def findings(self):
        mean = sum(self.words) / len(self.words)
        low, high = map(float, (min(self.words), max(self.words)))
        return [TrialRow("text length", "words of a text", mean, (low, high), n=3, unit="words")]

    def to_dict(self):
        return {"words": list(self.words)}

def showed(rows, every):
    return f"Texts have {rows[0].value:.1f} words on average."

def against(rows, every):
    return "The texts are short." if rows and rows[0].value < 10 else ""

def conclude(rows, texts, against):
    return f"Lengths were looked at in {texts} texts." if rows else ""

def chart(result):
    points = tuple((float(i), float(n)) for i, n in enumerate(result.words))
    return Scatter((Series("texts", points),), "text", "words", "lengths of texts")

@trial_test("text length", title="How long are the texts?", needs={"attentions"}, cite="Plugin 2026",
            words=TrialWords(showed, against=against, conclude=conclude), chart=chart)
def run(suite):
    """Words are counted.

    Control: none

    Cost: nothing

    Not shown: anything about attention.
    """
    return Lengths(tuple(len(case.x.units("word")) for case in suite.cases.cases))
'''
SCRIPT = """
import contextlib, importlib.util, io, json, sys
from pathlib import Path

root, folder = Path(sys.argv[1]), Path(sys.argv[2])
from heedful.cli.main import main

def run(*words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}

texts, done = str(folder / "texts.csv"), {}
done["trial help"] = run("trial", "--help")
done["doctor"] = run("doctor", "zoo:sentiment", "--json")
done["unknown metric"] = run("audit", texts, "--metric", "nothing")
done["unknown test"] = run("trial", texts, "--test", "text-lenght")
once = ("--method", "letters", "--json", "--quiet")
done["explain"] = run("explain", "a very good film", "--param", "letters.power=2", *once)
kept = ("--metric", "best-word-drop", "--draws", "5", "--out", str(folder / "audit"))
done["audit"] = run("audit", texts, *once, *kept)
kept = ("--html", str(folder / "trial.html"), "--out", str(folder / "trial"))
done["trial"] = run("trial", texts, "--test", "text-length", "--json", "--quiet", *kept)
done["report"] = run("report", str(folder / "trial"), "--html", str(folder / "again.html"))

from starlette.testclient import TestClient
from heedful.server import app

config = app.ServerConfig(runs=folder)
state = app.load_state(["zoo:sentiment"], config)
client = TestClient(app.application(state, config), base_url=f"http://127.0.0.1:{config.port}")
done["here"] = client.get("/api/here").json()
state.close()

spec = importlib.util.spec_from_file_location("docs_generate", root / "docs" / "generate.py")
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)
done["docs"] = {name: generate.PAGES[name]() for name in
                ("methods.md", "metrics.md", "trial.md", "methods/letters.md", "metrics/best-word-drop.md")}
(folder / "done.json").write_text(json.dumps(done))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the distribution was installed and everything was run, in a process of its own."""
    folder = tmp_path_factory.mktemp("plugin")
    modules = {"plug_explainer": EXPLAINER, "plug_metric": METRIC, "plug_test": TRIAL_TEST}
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    info = folder / "plug-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1.0\n", encoding="utf-8")
    lines = "".join(f"{name} = {name}\n" for name in modules)
    (info / "entry_points.txt").write_text(f"[heedful.plugins]\n{lines}", encoding="utf-8")
    rows = [
        ("a good film", "positive"),
        ("a bad and boring film", "negative"),
        ("not bad at all", "positive"),
    ]
    table = "text,label\n" + "".join(f"{text},{label}\n" for text, label in rows)
    (folder / "texts.csv").write_text(table, encoding="utf-8")
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    paths = [str(folder), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    subprocess.run(
        [sys.executable, str(folder / "script.py"), str(ROOT), str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        check=True,
    )
    return folder


@pytest.fixture(scope="module")
def done(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "done.json").read_text(encoding="utf-8"))
    return document


def result(done: dict[str, Any], command: str) -> Any:
    assert done[command]["code"] == 0, done[command]["err"]
    return json.loads(done[command]["out"])


def test_they_are_listed(done: dict[str, Any]) -> None:
    assert "How long are the texts?" in done["trial help"]["out"]
    assert {"method": "letters", "ok": True, "why": ""} in result(done, "doctor")["methods"]
    assert "best-word-drop" in done["unknown metric"]["err"]
    assert "Did you mean 'text length'?" in done["unknown test"]["err"]
    assert done["unknown test"]["code"] == 2


def test_the_explainer_runs(done: dict[str, Any]) -> None:
    first = result(done, "explain")["attributions"][0]
    assert first["method"] == "letters"
    assert first["params"] == {"power": 2, "unit": "word", "operator": "mask"}
    assert first["fitted_by"] == ["mask"], "recorded by the question: the plug-in does not say it"


def test_the_metric_is_in_the_audit_and_on_its_page(done: dict[str, Any], folder: Path) -> None:
    audit = result(done, "audit")
    assert {(row["metric"], row["method"]) for row in audit["table"]} >= {("best-word-drop", "letters")}
    assert "mask" not in {row["operator"] for row in audit["table"]}, "what fitted it does not judge it"
    page = (folder / "audit" / "report.html").read_text(encoding="utf-8")
    assert "best-word-drop" in page
    assert "letters" in page


def test_the_test_is_in_the_trial_and_on_its_page(done: dict[str, Any], folder: Path) -> None:
    trial = result(done, "trial")
    assert {row["test"] for row in trial["table"]} == {"text length"}
    assert trial["details"] == {"text length": {"words": [3, 5, 4]}}
    assert trial["verdict"].startswith(
        "Texts have 4.0 words on average. Not shown: anything about attention."
    )
    assert "Lengths were looked at in 3 texts." in trial["conclusion"]
    page = (folder / "trial.html").read_text(encoding="utf-8")
    for words in ("How long are the texts?", "words of a text", "lengths of texts"):
        assert words in page
    assert without_note((folder / "again.html").read_text(encoding="utf-8")) == page


def test_a_saved_trial_opens_without_torch_and_without_the_plugin(done: dict[str, Any], folder: Path) -> None:
    code = (
        "import sys, heedful; "
        "trial = heedful.Trial.load(sys.argv[1]); trial.page(); print(trial.verdict); "
        "sys.exit(' '.join({'torch', 'plug_test'} & set(sys.modules)) or 0)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(folder / "trial")], capture_output=True, text=True, check=True
    ).stdout
    assert told.strip() == result(done, "trial")["verdict"]


def test_the_served_page_offers_the_method(done: dict[str, Any]) -> None:
    assert "letters" in [method["name"] for method in done["here"]["methods"]]


def test_they_are_in_the_generated_docs(done: dict[str, Any]) -> None:
    docs = done["docs"]
    assert "| [`letters`](methods/letters.md) | Longer tokens score higher. |" in docs["methods.md"]
    assert "| [`best-word-drop`](metrics/best-word-drop.md) |" in docs["metrics.md"]
    assert "| `text length` | Words are counted | none | nothing | Plugin 2026 |" in docs["trial.md"]
    assert "What it asks the model for, it throws away" in docs["methods/letters.md"]
    assert "One word is not the text." in docs["metrics/best-word-drop.md"]
