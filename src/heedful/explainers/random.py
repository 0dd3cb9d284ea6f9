"""The control: scores drawn from N(0, 1), one per unit, spread over its tokens.

Cost: none. Needs: nothing. Every number another method earns is read beside what this one earns by luck.
"""

from __future__ import annotations

import numpy as np

from heedful.core.attribution import Attribution
from heedful.core.registry import explainer
from heedful.engine.question import Question


@explainer("random", needs=set(), takes=("unit", "seed"), cite="control")
def random(q: Question) -> Attribution:
    """The control: what an explanation that knows nothing looks like.

    Limitations: Always. That is its use: whatever looks no better than it has shown nothing.
    """
    return q.answer(np.random.default_rng(q.seed).standard_normal(len(q.units)))
