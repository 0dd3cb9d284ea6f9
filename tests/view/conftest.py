"""A comparison made by hand: special tokens, signed and unsigned methods, a sampled one, and the control."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from heedful.types import Attribution, Comparison, Cost, Encoded, Target

HOSTILE = "</script><img src=x onerror=alert(1)> [bold]& \x1b[31mred\x00 שלום \u202eevil 👩‍👩‍👧 很好"


def encode(text: str) -> Encoded:
    spans = tuple(match.span() for match in re.finditer(r"\S+", text))
    n = len(spans)
    return Encoded(
        text=text,
        ids=tuple(range(n + 2)),
        tokens=("[CLS]", *(text[a:b] for a, b in spans), "[SEP]"),
        offsets=((0, 0), *spans, (0, 0)),
        special=(True, *[False] * n, True),
        words=(-1, *range(n), -1),
        word_spans=spans,
        segments=(-1, *[0] * n, -1),
    )


METHODS = (
    ("grad-l2", False, False),
    ("grad-x-input", True, False),
    ("integrated-gradients", True, False),
    ("attention-rollout", False, False),
    ("lime", True, True),
    ("random", True, False),
)


def compare(
    text: str = "the food is great and the service is not bad", methods: Any = METHODS, **more: Any
) -> Comparison:
    x, rng = encode(text), np.random.default_rng(0)
    items = []
    for name, signed, sampled in methods:
        scores = rng.normal(size=len(x))
        items.append(
            Attribution(
                x,
                Target("class", 1, "positive"),
                scores if signed else np.abs(scores),
                name,
                stderr=np.full(len(x), 0.3) if sampled else None,
                output=2.5,
                signed=signed,
                cost=Cost(10, 1, 9, 1234, 0.5),
                notes=("attention switched to eager",) if name.startswith("attention") else (),
            )
        )
    model = {"name": "zoo:toy", "kind": "classifier", "prediction": [["positive", 0.93], ["negative", 0.07]]}
    settings = {"seed": 0, "unit": "word", "versions": {"heedful": "0"}, "seconds": 1.0}
    return Comparison(tuple(items), **{"model": model, "settings": settings, "refused": {}, **more})


@pytest.fixture
def make() -> Callable[..., Comparison]:
    return compare


@pytest.fixture
def hostile() -> Comparison:
    """Markup in every place that comes from outside."""
    evil = "<b>evil</b></title><script>alert(2)</script>"
    model = {"name": evil, "kind": "classifier", "prediction": [[evil, 0.9], ["ok", 0.1]]}
    settings = {"unit": "word", "source": evil, "versions": {"x": evil}}
    return compare(HOSTILE, model=model, settings=settings, refused={"<i>m</i>": evil})
