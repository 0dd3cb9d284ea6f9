"""Occlusion (leave one out): score of unit j = f(x) - f(x without j).

Units are the units of the text and of the tokens that were written after it. The scores depend on the removal
operator: deleting a word and masking it can give different results. Cost: one model input per unit, and one
for the text itself. Needs: values.

Zeiler & Fergus 2014; Li et al. 2016 (erasure, for text).
"""

from __future__ import annotations

import numpy as np

from heedful.core.attribution import Attribution
from heedful.core.registry import explainer
from heedful.engine.question import Question


@explainer(
    "occlusion",
    needs={"values"},
    takes=("unit", "operator"),
    cite="Zeiler & Fergus 2014",
    properties=("linear", "unused", "symmetric"),
    rows=lambda x, target, p: len(x.units(p["unit"])) + len(target.given) + 1,
)
def occlusion(q: Question) -> Attribution:
    """The drop of the output when this unit (a word, a patch) alone is removed.

    Limitations: It removes one unit at a time. If two say the same thing, removing one of them changes
    nothing, and both score zero. The scores depend on the removal operator.
    """
    keep = np.ones((len(q.units) + 1, len(q.units)), dtype=bool)
    np.fill_diagonal(keep[1:], False)
    values = q.values(keep)
    return q.answer(values[0] - values[1:], output=float(values[0]))
