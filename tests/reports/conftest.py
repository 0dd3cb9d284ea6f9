"""A comparison made by hand: special tokens, signed and unsigned methods, a sampled one, and the control."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heedful.comparisons.result import Comparison
from heedful.core.attribution import Attribution
from heedful.core.cost import Cost
from heedful.core.target import Target
from heedful.heads.atlas import Atlas
from heedful.heads.maps import MapAxis, Maps
from heedful.modalities.text import TextInput

HOSTILE = "</script><img src=x onerror=alert(1)> [bold]& \x1b[31mred\x00 שלום \u202eevil 👩‍👩‍👧 很好"


def encode(text: str) -> TextInput:
    spans = tuple(match.span() for match in re.finditer(r"\S+", text))
    n = len(spans)
    return TextInput(
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
    return Comparison(tuple(items), **{"model": model, "settings": settings, "skipped": {}, **more})


def side_of(labels: Sequence[str], words: Sequence[int]) -> MapAxis:
    """A side of a map: word -1 is special, the same word twice is a split word."""
    return MapAxis(
        tuple(labels), tuple(w < 0 for w in words), tuple(words), tuple(-1 if w < 0 else 0 for w in words)
    )


def weights_of(rng: np.random.Generator, *shape: int, causal: bool = False) -> np.ndarray:
    logits = rng.normal(size=shape) * np.linspace(0.3, 4, shape[1])[None, :, None, None]
    if causal:
        logits = np.where(np.tri(*shape[2:], dtype=bool), logits, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def chart(
    text: str = "the food is surprisingly great",
    shape: tuple[int, int] = (2, 3),
    kind: str = "encoder",
    split: bool = True,
    **more: Any,
) -> Atlas:
    """An atlas of random heads: sharper with their number. `kind`: "encoder", "decoder", "both", "pooled"."""
    x, rng = encode(text), np.random.default_rng(0)
    words = list(x.words)
    if split and len(words) > 5:
        words = [min(word, 3) if word >= 0 else -1 for word in words]  # the last ones are one word
    self_ = side_of(x.tokens, words)
    n, causal = len(self_), kind == "decoder"
    stacks = [Maps("self", weights_of(rng, *shape, n, n, causal=causal), self_, self_, causal)]
    if kind == "pooled":
        pool = side_of(["pool"], [-1])
        stacks = [Maps("self", weights_of(rng, *shape, 1, n), pool, self_)]
    if kind == "both":
        out = side_of(["<pad>", "das", "Ess", "en"], [-1, 0, 1, 1])
        stacks.append(Maps("decoder", weights_of(rng, *shape, 4, 4, causal=True), out, out, True))
        stacks.append(Maps("cross", weights_of(rng, *shape, 4, n), out, self_))
    model = {"name": "zoo:toy", "kind": "classifier", "prediction": [["positive", 0.93], ["negative", 0.07]]}
    return Atlas(x, tuple(stacks), **{"model": model, **more})


@pytest.fixture(scope="session")
def make_atlas() -> Callable[..., Atlas]:
    return chart


@pytest.fixture
def hostile_atlas() -> Atlas:
    evil = "<b>evil</b></title><script>alert(2)</script>"
    model = {"name": evil, "kind": "classifier", "prediction": [[evil, 0.9], ["ok", 0.1]], "dtype": evil}
    return chart(HOSTILE, split=False, model=model, notes=(evil,))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    spec = importlib.util.spec_from_file_location("browser", Path(__file__).with_name("browser.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.chromium(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def make() -> Callable[..., Comparison]:
    return compare


@pytest.fixture
def hostile() -> Comparison:
    """Markup in every place that comes from outside."""
    evil = "<b>evil</b></title><script>alert(2)</script>"
    model = {"name": evil, "kind": "classifier", "prediction": [[evil, 0.9], ["ok", 0.1]]}
    settings = {"unit": "word", "source": evil, "versions": {"x": evil}}
    return compare(HOSTILE, model=model, settings=settings, skipped={"<i>m</i>": evil})
