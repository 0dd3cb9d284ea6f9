"""What the pages of the first round showed is still shown: one line per feature."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import html5lib
import numpy as np
import pytest
from tests.reports import every
from tests.reports.conftest import compare

EXPLANATION = {
    "prediction": r"positive 93\.0 %",
    "other labels": r"negative 7\.0 %",
    "the text, shaded by a picker of methods": r"Shaded by\s*lime",
    "control among the methods": r"random control",
    "meaning of colours": "solid underline: towards the target",
    "methods without a sign": "no underline: the method has no sign",
    "the explained number and its value": r"the logit of “positive”, which is 2\.5",
    "words that decide, with measured effects": r"(For|Against) “positive”: .* measured by deleting",
    "methods that beat random orders": r"beat \d+ of 20|Beat all 20 random orders",
    "where a recommendation comes from": "heedful.audit on 50 texts",
    "scores of every word by every method": "integrated-gradients",
    "standard errors": r"± 0\.30",
    "unsure signs": r"\? [+−]\d",
    "measured effects by operator": "measured.?delete",
    "a second operator": "mask",
    "claims compared with measurements": "claimed and measured",
    "how to read the table": "Kendall’s τ between claims and measurements",
    "strength and share on special tokens": r"strongest [\d.]+ · \d+ % on special tokens",
    "skill by metric": r"comprehensiveness\s*delete",
    "random orders of the evidence": r"random −?[\d.]+ to",
    "curves of removal": "The explained number as words are removed",
    "attention by layer": "layer 2",
    "attention of special tokens": "special tokens",
    "features and their effects": "Removed together they change the explained number",
    "random features, the control": "As many random active features",
    "agreement by three measures": "Overlap of the 5 strongest",
    "agreement of chance": "Chance stays within",
    "the random control and the methods": "The random control",
    "cost: passes": "forward passes",
    "cost: tokens": "1,234",
    "mean standard error": "mean standard error",
    "skipped methods, with reasons": "needs one layer",
    "notes of methods": "attention switched to eager",
    "model, seed, unit, versions": r"versions\s*heedful 0",
    "the command": "heedful explain",
    "the Python": "heedful.load",
}
AUDIT = {
    "recommendation": "Use ",
    "texts won": r"18 of 20",
    "chart with the random line": r"share of texts on which it beat most random orders",
    "orders beaten": "orders beaten",
    "distance from random orders": r"\bz\b",
    "gap": r"\bgap\b",
    "model inputs per explanation": "model inputs",
    "families and operators apart": "remove",
    "skill with intervals": r"0\.50\s*0\.20 to 0\.80|0\.20 to 0\.80",
    "numbers in the unit of the metric": "random",
    "accuracy on labels": "15 of 20",
    "labels that the model does not know": "1 label",
    "copies of rows": "2 rows have the text of another",
    "skipped rows": "1 of 23 rows",
    "methods that failed": "has no scores on 1 text",
    "metrics without a value": "had no value on any text",
    "errors with their row": "row",
    "shared model inputs": "50",
    "how it was made": "How it was made",
}


@cache
def explanation() -> str:
    found = compare(skipped={"lime-exact": "needs one layer"})
    words = len(found.x.word_spans)
    orders = tuple(np.linspace(-0.1, 0.3, 20))
    evidence = tuple(
        replace(every.evidence(method, metric), n=1, orders=orders, family=family)
        for method in ("lime", "grad-l2")
        for metric, family in (("comprehensiveness", "remove-top"), ("sufficiency", "keep-top"))
    )
    internals = every.seen(words)
    removals = tuple(
        replace(each, operator=name)
        for each, name in zip(internals.removals, ("delete", "mask"), strict=True)
    )
    internals = replace(internals, removals=removals)
    return said(replace(found, evidence=evidence, internals=internals).page())


@cache
def audit() -> str:
    return said(every.audit().page())


def said(page: str) -> str:
    body = html5lib.parse(page, namespaceHTMLElements=False).find("body")
    for script in [*body.iter("script")]:
        script.text = ""
    return re.sub(r"\s+", " ", " ".join(body.itertext()))


@pytest.mark.parametrize("feature", EXPLANATION)
def test_the_report_of_an_explanation_shows(feature: str) -> None:
    assert re.search(EXPLANATION[feature], explanation())


@pytest.mark.parametrize("feature", AUDIT)
def test_the_report_of_an_audit_shows(feature: str) -> None:
    assert re.search(AUDIT[feature], audit())
