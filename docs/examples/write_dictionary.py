"""Write the numbers of an SAE's docs page: python docs/examples/write_dictionary.py --help.

Reads an SAE, measures it on held-out texts, makes a report of ten random features, steers with each of them,
and writes the numbers as Markdown for the docs page, with one HTML report of the ten features. Nothing
is picked by hand: failures are in the tables, too.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
from collections.abc import Iterator
from pathlib import Path

from pyarrow import parquet

import heedful
from heedful.core.evidence import MeasuredValue
from heedful.features.measures.quality import Measured, measure
from heedful.features.reading.results import FeaturePages, Page
from heedful.features.steering.results import Sweep, SweepPoint
from heedful.features.steering.sweep import Baselines, Intervention, Writing, sweep
from heedful.models.zoo import resolve

STRENGTHS = ("0.5x", "1x", "2x", "4x")
FIGURES = {
    "l0": "active features per token (L0)",
    "explained": "variance explained",
    "recovered (zero)": "loss recovered, compared with zero",
    "recovered (mean)": "loss recovered, compared with the mean",
    "dead": "share of dead features",
    "dense": "share of dense features (active on over 10 % of tokens)",
}


def beginnings(texts: Path, count: int) -> list[str]:
    """The first five words of sentences drawn at random: prompts that nobody chose."""
    read = [row["text"] for row in parquet.read_table(texts).to_pylist()]
    every = [words for text in read for s in re.split(r"(?<=[.?!]) ", text) if len(words := s.split()) >= 12]
    return [" ".join(words[:5]) for words in random.Random(0).sample(every, count)]


def number(value: float) -> str:
    return "–" if not math.isfinite(value) else f"{value:.3g}".replace("-", "−")


def spanned(value: float, low: float, high: float) -> str:
    return f"{number(value)} [{number(low)}, {number(high)}]" if math.isfinite(low) else number(value)


def plain(control: str) -> str:
    return control.replace("dictionary", "SAE")


def measured(found: Measured) -> Iterator[str]:
    controls = list(found.controls)
    yield "| | SAE | " + " | ".join(map(plain, controls)) + " |"
    yield "|---" * (2 + len(controls)) + "|"
    for name, words in FIGURES.items():
        if name in found.figures:
            figure = found.figures[name]
            beside = (number(found.controls[control].get(name, math.nan)) for control in controls)
            yield f"| {words} | {spanned(figure.value, figure.low, figure.high)} | {' | '.join(beside)} |"
    losses = ", ".join(f"{plain(name)} {value:.3f}" for name, value in found.loss.items())
    yield f"\nLoss per token in nats: {losses}. Tokens: {found.about.get('tokens', 0):,}."


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
    heads = ("feature", "active on", "rule, from half of the texts", "accuracy on the other half")
    yield "| " + " | ".join((*heads, "rule of another feature", "raises", "strongest example")) + " |"
    yield "|---" * 7 + "|"
    for page in pages:
        said = page.interpretation
        score = other = "too few activations"
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


def point(mean: MeasuredValue) -> str:
    return spanned(mean.value, mean.low, mean.high)


def share(mean: MeasuredValue) -> str:
    """Of tokens, in percent; a share is not below zero, so neither is its interval."""
    return f"{100 * mean.value:.2g} % [{100 * max(mean.low, 0):.2g}, {100 * mean.high:.2g}]"


def steered(swept: dict[int, Sweep]) -> Iterator[str]:
    """One line per feature: at the strength that does most before the text breaks, with the baselines."""
    heads = ["feature", "strength", "active on, of the generated tokens", "unsteered", "difference of means"]
    heads += ["random direction", "perplexity ÷ unsteered", "breaks at", "result"]
    yield "| " + " | ".join(heads) + " |"
    yield "|---" * 9 + "|"
    for feature, found in swept.items():
        mine = found.methods[0]
        shown = kept(found) or found.of(mine)[0]
        rivals = {one.method: one for one in found.points if one.strength == shown.strength}
        beside = " | ".join(
            share(rivals[name].presence) if name in rivals else "–"
            for name in ("difference of means", "random direction")
        )
        fires = f"{share(shown.presence)} | {share(found.base.presence)} | {beside}"
        yield (
            f"| {feature} | {shown.strength} | {fires} "
            f"| {point(shown.ratio)} | {found.breaks(mine) or 'not yet'} | {verdict(found)} |"
        )


def texts_of(swept: dict[int, Sweep]) -> Iterator[str]:
    """The continuation of the first prompt, at that strength."""
    first = next(iter(swept.values()))
    unsteered = cell(first.base.texts[0].text.strip())
    yield f"After “{first.prompts[0]}” the model writes “{unsteered}”. With steering:\n"
    for feature, found in swept.items():
        shown = kept(found) or found.of(found.methods[0])[0]
        yield f"- {feature} at {shown.strength}: “{cell(shown.texts[0].text.strip())}”"


def kept(found: Sweep) -> SweepPoint | None:
    """The strength with the most active tokens, of those that do not break the text."""
    whole = [one for one in found.of(found.methods[0]) if not one.broken]
    return max(whole, key=lambda one: one.presence.value, default=None)


def verdict(found: Sweep) -> str:
    """By a rule: before the text breaks, is the feature active more often than unsteered and baselines?"""
    best = kept(found)
    if best is None:
        return "breaks at once"
    if not best.presence.low > found.base.presence.value:
        return "not significantly more active"
    rivals = [p for p in found.points[1:] if p.strength == best.strength and p.method != best.method]
    beaten = all(best.presence.low > rival.presence.high for rival in rivals)
    same = "not significantly different from a baseline of the same size"
    return "more active" if beaten else f"more active; {same}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("sae")
    parser.add_argument("--texts", default="zoo:lm", help="held-out texts; zoo:lm: its speeches")
    parser.add_argument("--more", help="further held-out texts to measure on")
    parser.add_argument("--rows", type=int, default=100_000, help="tokens to read for the report")
    parser.add_argument("--measured", type=int, default=50_000, help="tokens to measure on")
    parser.add_argument("--steered", type=int, default=10, help="how many of the ten features are steered")
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--html", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    model, sae = heedful.load(args.model), heedful.SAE.load(args.sae)
    texts = resolve.held_out(args.texts) if args.texts.startswith("zoo:") else Path(args.texts)
    lines = ["## On held-out texts", ""]
    for name in filter(None, (texts, args.more)):
        lines += [f"`{Path(name).name}`:", "", *measured(measure(sae, model, name, rows=args.measured)), ""]
    pages = heedful.feature_pages(model, sae, texts, choose="random:10", rows=args.rows)
    pages.to_html(args.html)
    lines += ["## Ten features by rule", "", *features(pages), ""]
    swept, prompts = {}, beginnings(resolve.held_out("lm"), args.prompts)
    for page in list(pages)[: args.steered]:
        swept[page.feature] = found = sweep(
            model,
            Intervention(sae, page.feature, STRENGTHS),
            prompts,
            baselines=Baselines(texts=texts),
            writing=Writing(max_new_tokens=24),
        )
        print(json.dumps({"feature": page.feature, "verdict": verdict(found)}), flush=True)
    lines += ["## Steered", "", *steered(swept), "", *texts_of(swept)]
    args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
