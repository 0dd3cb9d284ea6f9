"""Browser tests without a browser: skipped, with a last line that says so, or failed if one is required."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

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


def test_skipped_tests_are_counted_in_the_last_line(tmp_path: Path) -> None:
    done = run(tmp_path, "-n", "1")  # as make test does: workers run the tests, the parent counts
    last = done.stdout.strip().rsplit("\n", 1)[-1]
    skipped = re.search(r"(\d+) skipped", done.stdout)
    assert done.returncode == 0, done.stdout
    assert skipped is not None
    assert int(skipped[1]) >= 2
    assert last.startswith(f"{skipped[1]} browser tests were skipped")
    assert "apt-get install chromium" in last


def test_where_a_browser_is_required_its_absence_fails(tmp_path: Path) -> None:
    done = run(tmp_path, HEEDFUL_BROWSER="required")
    assert done.returncode == 1, done.stdout
    assert "skipped" not in done.stdout.rsplit("\n", 2)[-2]
    assert "needs Chromium" in done.stdout


def test_continuous_integration_requires_a_browser() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "apt-get install -y -qq chromium" in script
    assert "HEEDFUL_BROWSER=required make test" in script
