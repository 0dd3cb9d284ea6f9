"""LIME at the published settings and 1,000 rows: ours against the lime package and captum, row for row."""

from __future__ import annotations

from typing import Any

from bench.models import classifier, question
from bench.rivals import captum_rows, lime_text
from bench.timing import Ratio, compare
from heedful.core import registry
from heedful.engine.question import run_explainer

TITLE = "LIME, 1,000 samples, 128 tokens"
SAMPLES, PAIRS = 1000, 3
FEATURES = 10  # the lime package's default


def run() -> list[Ratio]:
    return [_deletion(), _masking()]


def _ours(operator: str) -> Any:
    model, x, target = question()

    def explain() -> None:
        lime = registry.get("lime")
        run_explainer(lime, model, x, target, variant="published", samples=SAMPLES, operator=operator)

    return explain


def _deletion() -> Ratio:
    model, x, target = question()
    function = lime_text.Counted(model.module, model.tokenizer)

    def theirs() -> None:
        lime_text.explain(function, x.text, target.index, SAMPLES, FEATURES, seed=0)

    before = model.spent
    found = compare(
        "deletion",
        "lime with its default settings, batches of 64",
        _ours("delete"),
        theirs,
        at_most=0.6,
        pairs=PAIRS,
        warm=False,
    )
    spent = model.spent - before
    note = (
        f"{function.padding / function.tokens:.0%} of the rival's tokens are padding; heedful runs "
        f"{spent.unique // PAIRS:,} model inputs with {spent.tokens / (function.tokens):.2f} times the "
        f"tokens; {len(x.units('word'))} words; on {classifier()[1]}"
    )
    return found.told(note, (SAMPLES, function.rows // PAIRS))


def _masking() -> Ratio:
    model, x, target = question()
    forward = captum_rows.MaskedWords(model, x, target)

    def theirs() -> None:
        captum_rows.lime(forward, SAMPLES, seed=0)

    before = model.spent.unique
    found = compare(
        "masking",
        "captum Lime, batches of 64",
        _ours("mask"),
        theirs,
        at_most=1.0,
        pairs=PAIRS,
        warm=False,
    )
    note = f"heedful runs {(model.spent.unique - before) // PAIRS:,} model inputs; on {classifier()[1]}"
    return found.told(note, (SAMPLES, forward.rows // PAIRS))
