"""Occlusion (leave one out): score of unit j = f(x) - f(x without j).

Units are those of the text and of what was already written after it. The removal operator is part of the
answer: deleting a word and masking it are different questions.
Cost: one row per unit, and one for the text itself. Needs: rows.

Zeiler & Fergus 2014; Li et al. 2016 (erasure, for text).
"""

from __future__ import annotations

import numpy as np

from heedful.core.attribution import Attribution
from heedful.core.input import Encoded
from heedful.core.model import Model
from heedful.core.registry import explainer
from heedful.core.target import Target
from heedful.modalities.operators import read, removable, unit_to_token_scores


@explainer(
    "occlusion",
    needs={"rows"},
    cite="Zeiler & Fergus 2014",
    properties=("linear", "unused", "symmetric"),
    rows=lambda x, target, p: len(x.units(p["unit"])) + len(target.given) + 1,
)
def occlusion(
    model: Model, x: Encoded, target: Target, *, operator: str | None = None, unit: str = "word"
) -> Attribution:
    """The drop of the output when this word alone is removed.

    Limitations: One word at a time: where two words say the same, removing either changes nothing and both
    score zero. The answer depends on how the word is removed.
    """
    written = model.written(target)
    groups = removable(x, written, unit)
    keep = np.ones((len(groups) + 1, len(groups)), dtype=bool)
    np.fill_diagonal(keep[1:], False)
    operator = operator or model.operators[0]
    values = model.rows(x, target, keep, operator, unit)
    return Attribution.over(
        x,
        written,
        target,
        unit_to_token_scores(values[0] - values[1:], groups, read(x, written)),
        params={"operator": operator},
        output=float(values[0]),
    )
