"""One event for all long work."""

from __future__ import annotations

from heedful.core.progress import Step, counting


def test_labels() -> None:
    assert Step("lime", 5, 18, part=2, parts=3).label == "method 5 of 18: lime, part 2 of 3"
    assert Step("reading texts", done=1, total=2).label == "reading texts"


def test_a_count_becomes_a_step() -> None:
    steps: list[Step] = []
    counting(steps.append, "reading")(1, 2)
    counting(None, "reading")(2, 2)
    assert steps == [Step("reading", done=1, total=2)]
