"""Browser tests without a browser: skipped, with a last line that says so, or failed if one is required."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests import browsers

ROOT = Path(__file__).parents[1]
CHOSEN = ("tests/server/test_parts.py", "tests/reports/test_atlas_browser.py")  # by marker, and by fixture


def run(tmp_path: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """pytest on browser tests alone, with a PATH on which there is no browser."""
    kept = {key: value for key, value in os.environ.items() if key != "HEEDFUL_BROWSER"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *CHOSEN, *words]
    command += ["-k", "test_in_the_page or test_script_decodes", "--no-header"]
    return subprocess.run(
        command, cwd=ROOT, env=kept | {"PATH": str(tmp_path)} | more, capture_output=True, text=True
    )


@pytest.fixture
def hooks(pytestconfig: pytest.Config) -> Any:
    """The conftest of this run."""
    path = str(ROOT / "tests" / "conftest.py")
    plugins = pytestconfig.pluginmanager.get_plugins()
    (found,) = (each for each in plugins if getattr(each, "__file__", "") == path)
    return found


def test_the_last_line_counts_skipped_browser_tests_alone(hooks: Any) -> None:
    lines: list[str] = []
    reasons = [browsers.REASON, "needs a disk", browsers.REASON]
    reports = [SimpleNamespace(longrepr=("file.py", 3, f"Skipped: {reason}")) for reason in reasons]
    reporter = SimpleNamespace(stats={"skipped": reports}, write_line=lines.append)
    config = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin={"terminalreporter": reporter}.get))
    hooks.pytest_unconfigure(config)
    assert [line[:31] for line in lines] == ["2 browser tests were skipped: n"]
    assert "apt-get install chromium" in lines[0]
    reporter.stats["skipped"] = reports[1:2]
    hooks.pytest_unconfigure(config)
    assert len(lines) == 1


@pytest.mark.slow
def test_skipped_tests_are_counted_in_the_last_line(tmp_path: Path) -> None:
    done = run(tmp_path, "-n", "1")  # as make test does: workers run the tests, the parent counts
    last = done.stdout.strip().rsplit("\n", 1)[-1]
    skipped = re.search(r"(\d+) skipped", done.stdout)
    assert done.returncode == 0, done.stdout
    assert skipped is not None
    assert int(skipped[1]) >= 2
    assert last.startswith(f"{skipped[1]} browser tests were skipped")
    assert "apt-get install chromium" in last


@pytest.mark.parametrize("required", [True, False])
def test_without_a_browser_a_test_that_needs_one_does_not_run(
    required: bool, hooks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_BROWSER", "required" if required else "")
    monkeypatch.setattr(browsers, "CHROMIUM", "")
    ended = pytest.fail.Exception if required else pytest.skip.Exception
    for marked, fixtures in ((True, ()), (False, ("browser",))):
        item = SimpleNamespace(get_closest_marker=lambda _, marked=marked: marked, fixturenames=fixtures)
        with pytest.raises(ended, match="needs Chromium"):
            hooks.pytest_runtest_setup(item)
    hooks.pytest_runtest_setup(SimpleNamespace(get_closest_marker=lambda _: None, fixturenames=()))


@pytest.mark.slow
def test_where_a_browser_is_required_its_absence_fails(tmp_path: Path) -> None:
    done = run(tmp_path, HEEDFUL_BROWSER="required")
    assert done.returncode == 1, done.stdout
    assert "skipped" not in done.stdout.rsplit("\n", 2)[-2]
    assert "needs Chromium" in done.stdout


def test_continuous_integration_requires_a_browser() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "apt-get install -y -qq chromium" in script
    assert "HEEDFUL_BROWSER=required make test" in script
