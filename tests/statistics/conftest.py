"""The helpers of this folder are scripts as well: they stand on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
