"""Write the numbers of a dictionary's page: python docs/examples/write_dictionary.py --help.

Reads a dictionary, measures it on held-out texts, makes pages of ten random features, steers by five others,
and writes what it found as Markdown to be included in a page, with one HTML file of the ten features. Nothing
is picked by hand: steered are those of forty random features whose rule is right most often on held-out
texts, and what fails is in the tables as well.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import heedful
from heedful.features.interpret import Interpretation, interpret
from heedful.features.measure import Measured
from heedful.features.pages import FeaturePages, Page
from heedful.features.rules import Rules
from heedful.features.sweep import Writing, sweep
from heedful.features.swept import Mean, Sweep
from heedful.models import zoo

PROMPTS = (
    "My fellow citizens,",
    "The most important thing about this year is",
    "We have learned that",
    "In the last two weeks the people of",
    "There is one question that",
    "I want to tell you about",
)
STRENGTHS = ("0.5x", "1x", "2x", "4x")
FIGURES = {
    "l0": "active features a token (L0)",
    "explained": "variance explained",
    "recovered (zero)": "loss recovered against zero",
    "recovered (mean)": "loss recovered against the mean",
    "dead": "dead share",
    "dense": "dense share (fires on over 10 % of tokens)",
}


def number(value: float) -> str:
    return "–" if not math.isfinite(value) else f"{value:.3g}".replace("-", "−")


def spanned(value: float, low: float, high: float) -> str:
    return f"{number(value)} [{number(low)}, {number(high)}]" if math.isfinite(low) else number(value)


def measured(found: Measured) -> Iterator[str]:
    controls = list(found.controls)
    yield "| | dictionary | " + " | ".join(controls) + " |"
    yield "|---" * (2 + len(controls)) + "|"
    for name, words in FIGURES.items():
        if name in found.figures:
            figure = found.figures[name]
            beside = (number(found.controls[control].get(name, math.nan)) for control in controls)
            yield f"| {words} | {spanned(figure.value, figure.low, figure.high)} | {' | '.join(beside)} |"
    losses = ", ".join(f"{name} {value:.3f}" for name, value in found.loss.items())
    yield f"\nLoss of the next token in nats: {losses}. Tokens: {found.about.get('tokens', 0):,}."


def cell(text: str) -> str:
    """Text of a model, safe in a cell of a table."""
    shown = text.replace("\n", "⏎").replace("&", "&amp;").replace("<", "&lt;").replace("|", "&#124;")
    return shown.replace("`", "&#96;").replace("*", "&#42;").replace("_", "&#95;").replace("[", "&#91;")


def strongest(page: Page) -> str:
    """Where the feature is strongest: a few tokens before and after, the marked one in bold."""
    if not page.reading.top:
        return ""
    best = page.reading.top[0]
    pieces = best.context.pieces
    before, after = pieces[max(0, best.at - 6) : best.at], pieces[best.at + 1 : best.at + 4]
    return f"{cell(''.join(before))}<b>{cell(pieces[best.at])}</b>{cell(''.join(after))}"


def features(pages: FeaturePages) -> Iterator[str]:
    heads = ("feature", "fires on", "rule, from half of the texts", "right on the other half")
    yield "| " + " | ".join((*heads, "another's rule", "raises", "strongest")) + " |"
    yield "|---" * 7 + "|"
    for page in pages:
        said = page.interpretation
        score = other = "too few firings"
        if said and said.scores:
            hit = said.scores.detection
            score = spanned(hit.value, hit.low, hit.high)
            other = number(said.controls["shuffled"].detection.value) if "shuffled" in said.controls else "–"
        raised = ", ".join(f"“{cell(pushed.name.strip())}”" for pushed in page.effects.promoted[:4])
        rule = cell(said.explanation.text) if said else "–"
        yield (
            f"| {page.feature} | {100 * page.reading.rate:.2g} % | {rule} | {score} | {other} | {raised} "
            f"| {strongest(page)} |"
        )


def point(mean: Mean) -> str:
    return spanned(mean.value, mean.low, mean.high)


def best(model: Any, sae: heedful.SAE, texts: Path, rows: int) -> list[Interpretation]:
    """Five of forty random features: those whose rule is surest to be right on held-out examples."""
    readings = heedful.read_features(model, sae, texts, choose="random:40", rows=rows, seed=1)
    rules = Rules()
    said = [one for one in interpret(list(readings), rules, rules) if one.scores]
    return sorted(said, key=lambda one: -one.scores.detection.low)[:5]


def steered(said: Interpretation, found: Sweep) -> Iterator[str]:
    """One table a feature, a sentence, and two texts."""
    mine, *_ = found.methods
    hit = said.scores.detection
    yield f"### Feature {said.feature}: {verdict(found)}\n"
    yield f"Its rule: {cell(said.explanation.text)}. Right on {spanned(hit.value, hit.low, hit.high)}.\n"
    yield "| strength | method | perplexity ÷ unsteered | share of tokens on which it fires | repeats |"
    yield "|---|---|---|---|---|"
    yield f"| – | unsteered | 1 | {point(found.base.presence)} | {number(found.base.repetition.value)} |"
    for one in found.points[1:]:
        yield (
            f"| {one.strength} | {one.method} | {point(one.ratio)} | {point(one.presence)} "
            f"| {number(one.repetition.value)} |"
        )
    kept = [one for one in found.of(mine) if not one.broken] or [found.of(mine)[0]]
    yield f"\nAfter “{found.prompts[0]}”:\n"
    yield f"- unsteered: {cell(found.base.texts[0].text)}"
    yield f"- at {kept[-1].strength}: {cell(kept[-1].texts[0].text)}\n"


def verdict(found: Sweep) -> str:
    """By a rule: where the text holds, does the feature fire more, and more than the baselines make it?"""
    mine, *others = found.methods
    best = max((p for p in found.of(mine) if not p.broken), key=lambda p: p.presence.value, default=None)
    if best is None:
        return "fails, the text breaks at the smallest strength"
    if not best.presence.low > found.base.presence.high:
        return "fails, it fires no more often than without steering before the text breaks"
    rivals = [p for name in others for p in found.of(name) if p.strength == best.strength and not p.broken]
    beaten = all(best.presence.value > rival.presence.value for rival in rivals)
    return f"works at {best.strength}" + ("" if beaten else ", and so does a baseline of the same size")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("sae")
    parser.add_argument("--texts", default="zoo:lm", help="held out; zoo:lm: its speeches")
    parser.add_argument("--more", help="further held-out texts to measure on")
    parser.add_argument("--rows", type=int, default=100_000, help="tokens to read for pages")
    parser.add_argument("--measured", type=int, default=50_000, help="tokens to measure on")
    parser.add_argument("--html", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    model, sae = heedful.load(args.model), heedful.SAE.load(args.sae)
    texts = zoo.held_out(args.texts) if args.texts.startswith("zoo:") else Path(args.texts)
    lines = ["## On held-out texts", ""]
    for name in filter(None, (texts, args.more)):
        lines += [f"`{Path(name).name}`:", "", *measured(sae.measure(model, name, rows=args.measured)), ""]
    pages = heedful.feature_pages(model, sae, texts, choose="random:10", rows=args.rows)
    pages.to_html(args.html)
    lines += ["## Ten features by rule", "", *features(pages), ""]
    lines += ["## Five features, turned up", ""]
    for said in best(model, sae, texts, args.rows):
        found = sweep(
            model, sae, PROMPTS, feature=said.feature, strengths=STRENGTHS, texts=texts,
            writing=Writing(max_new_tokens=24),
        )  # fmt: skip
        lines += steered(said, found)
        print(json.dumps({"feature": said.feature, "verdict": verdict(found)}), flush=True)
    args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
