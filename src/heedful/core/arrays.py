"""Types of arrays and spans."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


Span = tuple[int, int]
