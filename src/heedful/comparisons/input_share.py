"""Input dependence: how much of an explanation lies on the text, how much on what was already written.

    share = sum of |score| over the text / (the same + sum of |score| over what was written)

A language model writes each token from the text and from its own last tokens. What was written is scored by
`Attribution.written`, or, where a causal model's text holds it (`heedful.explain_each`), by the text's last
tokens. Special tokens, an encoder-decoder's start token among them, belong to neither.
The control is the text's share in the number of tokens: what it would be if every token scored the same.
"""

from __future__ import annotations

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.input import NEVER, Input


def input_share(item: Attribution, prompt_tokens: int | None = None) -> float | None:
    """The text's share, from 0 to 1; None where nothing was written, where the method does not score what was
    written, or not on the same scale. `prompt_tokens` is how many of item.x are the text; None: all."""
    if not anything_written(item, prompt_tokens):
        return None
    if item.target.given and (item.written is None or not item.written.same_scale):
        return None
    behind = None if item.written is None else np.abs(item.written.scores)
    return share_of(item, np.abs(item.scores), behind, prompt_tokens)


def anything_written(item: Attribution, prompt_tokens: int | None) -> bool:
    return bool(item.target.given) or (prompt_tokens is not None and prompt_tokens < len(item.x))


def share_of(
    item: Attribution, sizes: Floats, behind: Floats | None, prompt_tokens: int | None
) -> float | None:
    ordinary = _ordinary(item.x) * sizes
    text, rest = float(ordinary[:prompt_tokens].sum()), 0.0
    if prompt_tokens is not None:
        rest += float(ordinary[prompt_tokens:].sum())
    if behind is not None and item.written is not None:
        rest += float((_ordinary(item.written.x) * behind).sum())
    total = text + rest
    return text / total if total and np.isfinite(total) else None


def _ordinary(x: Input) -> Floats:
    """1 for tokens, 0 for special ones."""
    ordinary: Floats = (x.units(x.atom).owner != NEVER).astype(np.float64)
    return ordinary
