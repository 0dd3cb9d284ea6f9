"""The control: scores drawn from N(0, 1), one per unit, spread over its tokens.

Cost: none. Needs: nothing. Compare the result of every other method with the result of this one.
"""

from __future__ import annotations

import numpy as np

from heedful.core.attribution import Attribution
from heedful.core.registry import explainer
from heedful.engine.question import Question


@explainer("random", needs=set(), takes=("unit", "seed"), cite="control")
def random(q: Question) -> Attribution:
    """The control: random scores that do not depend on the model.

    Limitations: It is not an explanation. A method that is no better than these scores has shown nothing.
    """
    return q.answer(np.random.default_rng(q.seed).standard_normal(len(q.units)))
