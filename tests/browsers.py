"""Where Chromium is, and what happens to tests that need it where there is none.

Without a browser they are skipped, and the run ends with a line that says how many. With
HEEDFUL_BROWSER=required, as in continuous integration, they fail instead.
"""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), "")
REASON = "needs Chromium, which is not installed here"
FIX = "Install Chromium (Debian: apt-get install chromium) and run make test again."


def required() -> bool:
    return os.environ.get("HEEDFUL_BROWSER") == "required"


def summary(skipped: int) -> str:
    """The last line of a run that skipped browser tests."""
    tests = "1 browser test was" if skipped == 1 else f"{skipped} browser tests were"
    return f"{tests} skipped: no Chromium on this machine. {FIX}"
