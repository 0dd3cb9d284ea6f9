"""Puts zoo/ (training scripts, not part of the package) on the path of these tests only."""

from __future__ import annotations

import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "zoo"
if SCRIPTS.is_dir() and str(SCRIPTS) not in sys.path:
    sys.path.append(str(SCRIPTS))
