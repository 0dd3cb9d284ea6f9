"""The control: scores drawn from N(0, 1), one per unit, spread over its tokens.

Cost: none. Needs: nothing. Every number another method earns is read beside what this one earns by luck.
"""

from __future__ import annotations

import numpy as np

from heedful.core.attribution import Attribution
from heedful.core.input import Encoded
from heedful.core.model import Model
from heedful.core.registry import explainer
from heedful.core.target import Target
from heedful.modalities.operators import read, removable, unit_to_token_scores


@explainer("random", needs=set(), cite="control")
def random(model: Model, x: Encoded, target: Target, *, unit: str = "word", seed: int = 0) -> Attribution:
    """The control: what an explanation that knows nothing looks like.

    Limitations: Always. That is its use: whatever looks no better than it has shown nothing.
    """
    written = model.written(target)
    groups = removable(x, written, unit)
    values = np.random.default_rng(seed).standard_normal(len(groups))
    return Attribution.over(x, written, target, unit_to_token_scores(values, groups, read(x, written)))
