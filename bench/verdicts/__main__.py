"""The table of docs/verdict.md: python -m bench.verdicts [--audits 20000] [--seeds 4] [--only PART].

Three parts, each written to bench/results/verdicts.json as it is done: `simulated` (rates of false claims
from simulated audits), `sooner` (audits that stop when they are decided), `real` (audits of models whose
reasons are known). The table between the marks of docs/verdict.md is made of what the file holds.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.verdicts import audits, rates
from bench.verdicts.laws import LAWS, pools
from bench.verdicts.models import every
from bench.verdicts.rates import Null, Rate

HERE = Path(__file__).parents[2]
PLAIN = {
    "ties values": "values with ties",
    "rare wins values": "values that are 0, with rare wins",
    "rare losses values": "values with rare losses",
    "skewed, long tail of wins values": "skewed values with a long tail of wins",
    "heavy tails values": "heavy-tailed values",
    "the others know nothing": "the others have no information",
    "methods of 6 qualities": "6 methods of known quality",
    "right on half, the reverse on half": "good order on half of the texts, its reverse on the rest",
    "twin metrics": "ten metrics that give the same values",
    "every text four times": "every text appears four times",
}
CASES = {
    "nothing better, symmetric": "no method is better than random, symmetric values",
    "nothing better, rare wins": "no method is better than random, values that are 0, with rare wins",
    "clear": "one method is far better than the others, one method is worse than random",
    "clear, but one knows nothing": "one method is far better than the others, one method has no information",
    "near ties": "some methods are nearly equal",
}
RESULTS, PAGE = HERE / "bench" / "results" / "verdicts.json", HERE / "docs" / "verdict.md"
TEXTS, METHODS, MANY = 20, 4, 100
QUALITIES = np.array([1.6, 1.6, 1.5, 1.2, 0.8, 0.0])
CLEAR = np.array([3.0, 1.4, 1.2, -0.8])  # one method far ahead, one worse than random
NULL = np.array([3.0, 1.4, 1.2, 0.0])
FIRST = 2_026  # seeds from here on; for rates on seeds that nobody has tried, change it


def simulated(count: int) -> dict[str, Any]:
    """Rates under each null, and of recommendations among methods of known quality."""
    found: dict[str, Any] = {"audits": count, "texts": TEXTS, "methods": METHODS, "rates": []}
    for null in rates.nulls(TEXTS, METHODS):
        found["rates"].append(_rates(null, count))
    found["rates"].append(_duplicated(count))
    for law in ("symmetric", "skewed, long tail of wins", "heavy tails"):
        for n in (20, 50):
            named = rates.ranked(law, QUALITIES, n)
            found["rates"].append(_rates(named, count // 8, f"{named.name}, {n} texts"))
    return found


def _rates(null: Null, count: int, name: str = "") -> dict[str, Any]:
    better = use = 0
    for seed in range(FIRST, FIRST + count):
        verdict = rates.judged(null.draw(np.random.default_rng(seed)), seed)
        better += rates.false_better(verdict, null)
        use += rates.false_use(verdict, null)
    found = {"null": name or null.name, "false better": better, "false use": use, "of": count}
    print(f"{found['null']}: {Rate('', better, count)}, {Rate('', use, count)}", file=sys.stderr, flush=True)
    return found


def _duplicated(count: int) -> dict[str, Any]:
    """Copies count once in an audit; what would happen if they did not is given beside it."""
    once = again = 0
    for seed in range(FIRST, FIRST + count):
        one, four = rates.duplicated(4 * TEXTS, METHODS, np.random.default_rng(seed))
        once += bool(rates.judged(one, seed).better)
        again += bool(rates.judged(four, seed).better) if seed < FIRST + count // 10 else 0
    note = {"if copies counted": again, "of those": count // 10}
    return {"null": "every text four times", "false better": once, "false use": 0, "of": count, **note}


def sooner(count: int) -> dict[str, Any]:
    """Audits that stop when they are decided, of at most MANY texts."""
    found: dict[str, Any] = {"audits": count, "texts": MANY, "cases": []}
    cases: list[tuple[str, Null]] = [
        (name, Null(name, _drawn(LAWS[law], np.zeros(METHODS)), (False,) * METHODS))
        for name, law in (
            ("nothing better, symmetric", "symmetric"),
            ("nothing better, rare wins", "rare wins"),
        )
    ]
    cases.append(("right on half, the reverse on half", Null("", _half, (False,) * METHODS)))
    for name, quality in (("clear", CLEAR), ("clear, but one knows nothing", NULL), ("near ties", QUALITIES)):
        named = rates.ranked("symmetric", quality, MANY)
        cases.append((name, named))
    for name, null in cases:
        found["cases"].append(_stopped(name, null, count))
    return found


def _drawn(law: Any, quality: Any) -> Callable[[np.random.Generator], Any]:
    return lambda rng: pools(law, quality, MANY, rng)


def _half(rng: np.random.Generator) -> Any:
    return rates._half(MANY, METHODS, rng)


def _stopped(name: str, null: Null, count: int) -> dict[str, Any]:
    stops, better, use, settled = [], 0, 0, 0
    for seed in range(FIRST, FIRST + count):
        given = null.draw(np.random.default_rng(seed))
        stops.append(rates.stopped(given))
        verdict = rates.judged(rates.first(given, stops[-1]), seed, always=True)
        better += rates.false_better(verdict, null)
        use += rates.false_use(verdict, null)
        settled += verdict.certified
    found = {"case": name, "median texts": float(np.median(stops)), "false better": better, "false use": use}
    print(f"{name}: {found} of {count}", file=sys.stderr, flush=True)
    return found | {"certified": settled, "of": count}


def real(seeds: int) -> dict[str, Any]:
    """Audits from end to end."""
    models = every()
    found = audits.run(models, seeds, lambda one: print(one, file=sys.stderr, flush=True))
    reasons = [one for one in found if one.reasons]
    return {
        "models": len(models),
        "audits": len(found),
        "false better": sum(one.false_better for one in found),
        "without reasons": len(found) - len(reasons),
        "false better without reasons": sum(one.false_better for one in found if not one.reasons),
        "claims": sum(one.claims for one in reasons),
        "claims that hold": sum(one.claims_hold for one in reasons),
        "recommendations": sum(one.used for one in reasons),
        "recommendations within their gap": sum(one.used and one.gap_holds for one in reasons),
        "found": sum(one.found for one in reasons),
        "findable": sum(one.findable for one in reasons),
        "tau": float(np.mean([one.tau for one in reasons])),
    }


def table(data: dict[str, Any]) -> str:
    """What docs/verdict.md shows."""
    lines: list[str] = []
    if "simulated" in data:
        part = data["simulated"]
        lines += [
            f"Simulated audits. Each audit has {part['texts']} texts and {part['methods']} methods, "
            "if the row does not say otherwise.",
            "",
            "| what is audited | audits | a false “better than random” "
            "| a recommendation worse than it says |",
            "|---|---|---|---|",
        ]
        for one in part["rates"]:
            better, use = (Rate("", one[key], one["of"]) for key in ("false better", "false use"))
            lines.append(f"| {_named(one['null'])} | {one['of']:,} | {better} | {use} |")
    if "sooner" in data:
        part = data["sooner"]
        lines += [
            "",
            f"Simulated audits with `--until-decided`. Each audit has at most {part['texts']} texts. "
            f"There are {part['audits']:,} audits per row.",
            "",
            "| what is audited | median number of texts | a false “better than random” "
            "| a recommendation worse than it says | audits that certify a method |",
            "|---|---|---|---|---|",
        ]
        for one in part["cases"]:
            better, use = (Rate("", one[key], one["of"]) for key in ("false better", "false use"))
            share = f"{100 * one['certified'] / one['of']:.0f} %"
            case = CASES.get(one["case"], _named(one["case"]))
            lines.append(f"| {case} | {one['median texts']:.0f} | {better} | {use} | {share} |")
    if "real" in data:
        lines += ["", *_real_lines(data["real"])]
    return "\n".join(lines)


def _named(null: str) -> str:
    """Skewed and heavy-tailed values have the ranks of symmetric ones: one line represents all."""
    if null == "symmetric values":
        return "symmetric, skewed or heavy-tailed values"
    for name, plain in PLAIN.items():
        null = null.replace(name, plain)
    return null


def _real_lines(part: dict[str, Any]) -> list[str]:
    hold, within = part["claims that hold"], part["recommendations within their gap"]
    return [
        f"Whole audits: {part['audits']} audits of {part['models']} models, with {audits.TEXTS} texts each. "
        f"The true reasons\nof these models are known. The claims were checked on {audits.FRESH} new texts.",
        "",
        "| | |",
        "|---|---|",
        f"| audits with a false “better than random” | {Rate('', part['false better'], part['audits'])} |",
        "| the same, only for models whose output has no reason in the text | "
        f"{part['false better without reasons']} of {part['without reasons']} |",
        f"| claims “better than random” that are true on new texts | {hold} of {part['claims']} |",
        "| recommended methods that are within the printed gap on new texts | "
        f"{within} of {part['recommendations']} |",
        "| power, divided by the power of a test that knows the true effects | "
        f"{part['found'] / part['findable']:.2f} |",
        f"| Kendall's tau between the measured and the true order of the methods | {part['tau']:.2f} |",
    ]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.verdicts", description=__doc__)
    parser.add_argument("--audits", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--only", choices=("simulated", "sooner", "real", "page"))
    asked = parser.parse_args(argv)
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "simulated": lambda: simulated(asked.audits),
        "sooner": lambda: sooner(asked.audits // 40),
        "real": lambda: real(asked.seeds),
    }
    for name, run in parts.items():
        if asked.only in (None, name):
            data = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            found = run()
            data = json.loads(RESULTS.read_text()) if RESULTS.exists() else data
            RESULTS.write_text(json.dumps({**data, name: found}, indent=1) + "\n")
    _write_page()


def _write_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    body = table(json.loads(RESULTS.read_text()))
    made = re.sub(
        r"<!-- rates -->.*<!-- end of rates -->",
        lambda _: f"<!-- rates -->\n\n{body}\n\n<!-- end of rates -->",
        page,
        flags=re.DOTALL,
    )
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
