"""One HTML file for a few features of a dictionary: no script, nothing fetched, every string escaped."""

from __future__ import annotations

import math
from collections.abc import Container

from heedful.core.numbers import short, signed, span, with_interval
from heedful.features.interpretation.results import Interpretation, Scores, together
from heedful.features.interpretation.scores import AgreementScore
from heedful.features.reading.results import Effects, FeatureMean, FeaturePages, LogitEffect, Page
from heedful.reports import feature_examples as examples
from heedful.reports.charts.histogram import histogram
from heedful.reports.comparison_page import cell, component, document
from heedful.reports.html_parts import esc, part, table
from heedful.reports.shaded_text import level

MEASURES = {"detection": "balanced accuracy", "pearson": "Pearson r", "spearman": "Spearman ρ"}
WHO = {
    "": "this explanation",
    "shuffled": "that of another feature",
    "permuted": "the method on shuffled activations",
}


def page(pages: FeaturePages) -> str:
    """A self-contained HTML5 document."""
    return document(_title(pages), body(pages, 1), style=component("features.css"))


def fragment(pages: FeaturePages) -> str:
    """The same body for a notebook cell."""
    return cell(body(pages, 3), component("features.css"))


def body(pages: FeaturePages, size: int) -> str:
    """Every section; `size` is the heading level of the headline."""
    drawn = [_answer(pages, size)]
    if len(pages) > 1:
        drawn.append(_overview(pages, size + 1))
    here = {one.feature for one in pages}
    drawn += [feature(one, size + 1, here) for one in pages]
    drawn += [_test_box(pages, size + 1), _made(pages, size + 1)]
    return "\n".join(drawn)


def _title(pages: FeaturePages) -> str:
    if len(pages) == 1:
        return f"Feature {pages.pages[0].feature}"
    return f"{len(pages)} features"


def _answer(pages: FeaturePages, size: int) -> str:
    r = pages.readings
    kicker = (
        f"Dictionary of {pages.facts['features']:,} features at <b>{esc(r.site)}</b> of <b>{esc(r.model)}</b>"
    )
    heading = f'<p class="kicker">{kicker}</p><h{size} class="verdict">{_title(pages)}</h{size}>'
    how = "named by the reader" if r.chosen == "named" else f"chosen by the rule {r.chosen}"
    dead = sum(one.reading.fired == 0 for one in pages)
    lines = [
        f"Read on {r.settings['tokens']:,} tokens of {r.texts}; features {how}.",
        "The deeper the colour of a token, the greater its activation, in shares of the feature's greatest. "
        "The underlined token is the one an example was chosen for.",
        *([f"{dead} of them never fired on these texts."] if dead else []),
        *r.notes,
    ]
    sentences = "".join(f"<li>{esc(s)}</li>" for s in lines)
    return f'<header>{heading}<ul class="sentences">{sentences}</ul></header>'


def _overview(pages: FeaturePages, size: int) -> str:
    rows = []
    for one in pages:
        result = one.interpretation
        scored = result.scores if result else None
        effect = one.effects.ablation
        cells = [
            f"{100 * one.reading.rate:.3g} %",
            short(one.reading.greatest),
            _scored(scored.detection) if scored else "–",
            _scored(scored.pearson) if scored else "–",
            f"{signed(effect.change)} <small>({signed(effect.control)})</small>" if effect else "–",
        ]
        text = esc(result.explanation.text) if result and result.scores else "–"
        rows.append(
            f'<tr><th scope="row"><a href="#feature-{one.feature}">{one.feature}</a></th>'
            + "".join(f"<td>{c}</td>" for c in cells)
            + f'<td class="said">{text}</td></tr>'
        )
    heads = [
        "feature",
        "fires on",
        "greatest",
        "balanced accuracy<small>0.5 is chance</small>",
        "Pearson r",
        "loss without it<small>(a random active one)</small>",
        "said to fire on",
    ]
    lead = f"Scores of explanations are from texts they were not made from. {_means(pages)}"
    return part("overview", "At a glance", lead, table(heads, rows, "All features", "overview"), size)


def _means(pages: FeaturePages) -> str:
    """Over the features that were scored, beside the controls."""
    means = together([one.interpretation for one in pages if one.interpretation is not None])
    lines = [f"{_plainly(scores['detection'])} {WHO[who]}" for who, scores in means.items()]
    return f"Mean balanced accuracy: {'; '.join(lines)}." if lines else ""


def _plainly(score: AgreementScore) -> str:
    return with_interval(score.value, score.low, score.high)


def _scored(score: AgreementScore) -> str:
    ends = f" <small>{span(score.low, score.high)}</small>" if _known(score) else ""
    return f"{short(score.value)}{ends}"


def _known(score: AgreementScore) -> bool:
    return math.isfinite(score.low) and math.isfinite(score.high)


def feature(one: Page, size: int, linked: Container[int] = ()) -> str:
    """One feature; its neighbours that are `linked` lead to #feature-N."""
    r = one.reading
    name = f'<h{size} class="name">Feature {one.feature}</h{size}>'
    if not r.fired:
        text = f"It never fired on {r.tokens:,} tokens: dead, or rarer than that."
        inside = f'<p class="about">{text}</p><div class="figures">{_near(one, size + 1, linked)}</div>'
        return _section(one, f"{name}{inside}{examples.own(one, size + 1)}")
    about = (
        f"fires on {100 * r.rate:.3g} % of tokens ({r.fired:,} of {r.tokens:,}) · greatest activation "
        f"{short(r.greatest)} · decoder row of length {short(one.length)}"
    )
    figures = [
        _bars(one, size + 1),
        _pushes(one.effects, size + 1),
        _ablation(one, size + 1),
        _near(one, size + 1, linked),
        _scores(one.interpretation, size + 1),
    ]
    drawn = [
        name,
        f'<p class="about">{about}</p>',
        _meaning(one.interpretation),
        f'<div class="figures">{"".join(figures)}</div>',
        examples.own(one, size + 1),
        examples.tops(one, size + 1),
        examples.quantiles(one, size + 1),
    ]
    return _section(one, "".join(drawn))


def _section(one: Page, inside: str) -> str:
    return f'<section class="feature" id="feature-{one.feature}">{inside}</section>'


def _meaning(said: Interpretation | None) -> str:
    if said is None:
        return ""
    if said.scores is None:
        return f'<p class="meaning">No explanation: {esc("; ".join(said.notes))}.</p>'
    by = "found by rules" if said.explanation.by == "rules" else f"said by {said.explanation.by}"
    text = f"{by}, from {said.examples[0]} examples; scored on {said.examples[1]} others"
    return f'<p class="meaning">Said to fire on {esc(said.explanation.text)}.<small>{esc(text)}</small></p>'


def _box(title: str, lead: str, inside: str, size: int, wide: bool = False) -> str:
    text = f'<p class="lead">{lead}</p>' if lead else ""
    return f"<div{' class=wide' if wide else ''}><h{size}>{title}</h{size}>{text}{inside}</div>"


def _bars(one: Page, size: int) -> str:
    title = f"Histogram of the activations of feature {one.feature}, counts logarithmic"
    drawn = histogram(one.reading.counts, one.reading.edges, "activation, where it fires", title)
    return _box("How strongly", "Tokens, on a logarithmic scale.", drawn, size)


def _pushes(found: Effects, size: int) -> str:
    if not found.promoted and not found.suppressed:
        return ""
    greatest = max(abs(p.change) for p in (*found.promoted, *found.suppressed))
    sides = [("raises", found.promoted, "pos"), ("lowers", found.suppressed, "neg")]
    lists = "".join(
        f'<div><p class="head">{name}</p><ul>{"".join(_effect(e, kind, greatest) for e in some)}</ul></div>'
        for name, some, kind in sides
    )
    what = "next tokens" if found.outputs == "token" else "labels"
    lead = (
        f"Change of the logit of {what} that its activation stands for, to first order, at its strongest "
        "tokens; ± one standard error over them."
    )
    return _box("What it does to the answer", lead, f'<div class="pushes">{lists}</div>', size)


def _effect(effect: LogitEffect, kind: str, greatest: float) -> str:
    error = f" <small>± {effect.error:.2g}</small>" if math.isfinite(effect.error) else ""
    shade = f"{kind} l{level(effect.change / greatest)}"
    number = f"<span>{signed(effect.change)}{error}</span>"
    return f'<li class="{shade}"><bdi>{_spaced(effect.name)}</bdi>{number}</li>'


def _ablation(one: Page, size: int) -> str:
    result = one.effects
    if result.ablation is None:
        return _box("Without it", f"{esc('; '.join(result.notes))}.", "", size) if result.notes else ""
    effect: FeatureMean = result.ablation
    rows = [
        _line("without it", effect.change, effect.interval),
        _line("control: without another", effect.control, effect.control_interval),
    ]
    what = "the token that follows" if result.outputs == "token" else "the model's own answer"
    lead = (
        f"Change of the loss of {what} (nats) when it is set to zero where it fires, in {effect.windows} "
        "windows in which it is strongest; the dictionary's error is kept. Control: another feature that "
        "fires there."
    )
    return _box(
        "Without it", lead, table(["", "change", "95 % interval"], rows, f"Without {one.feature}"), size
    )


def _line(name: str, value: float, interval: tuple[float, float]) -> str:
    return f'<tr><th scope="row">{name}</th><td>{signed(value)}</td><td>{span(*interval, signed)}</td></tr>'


def _near(one: Page, size: int, linked: Container[int]) -> str:
    near = one.neighbours
    rows = [
        f'<tr><th scope="row">{_named(number, linked)}</th><td>{short(cosine)}</td></tr>'
        for number, cosine in zip(near.features, near.cosines, strict=True)
    ]
    lead = (
        f"By the cosine of decoder rows. A random direction reaches {short(near.chance)} at most, on average."
    )
    return _box(
        "Nearest features", lead, table(["feature", "cosine"], rows, f"Nearest to {one.feature}"), size
    )


def _named(number: int, linked: Container[int]) -> str:
    return f'<a href="#feature-{number}">{number}</a>' if number in linked else str(number)


def _scores(said: Interpretation | None, size: int) -> str:
    if said is None or said.scores is None:
        return ""
    all_of_them: dict[str, Scores] = {"": said.scores, **said.controls}
    rows = [
        f'<tr><th scope="row">{"" if not who else "control: "}{WHO[who]}</th>'
        + "".join(f"<td>{_scored(getattr(scores, name))}</td>" for name in MEASURES)
        + "</tr>"
        for who, scores in all_of_them.items()
    ]
    by_chance = ", ".join(f"{result} {getattr(said.scores, name).p:.2g}" for name, result in MEASURES.items())
    lead = (
        "How well the explanation predicts tokens of texts it was not made from, with 95 % intervals. "
        f"Probability of such scores where there is nothing to find: {by_chance}."
    )
    shown = table(["explanation", *MEASURES.values()], rows, f"Scores of the explanation of {said.feature}")
    return _box("Is that what it means?", lead, shown, size, wide=True)


# --- the end ---------------------------------------------------------------------------------------


def _test_box(pages: FeaturePages, size: int) -> str:
    r = pages.readings
    numbers = ",".join(str(one.feature) for one in pages.pages[:10])
    command = (
        f'heedful features page SAE {r.texts} --model {r.model} --feature {numbers} --text "your own text" '
        "--html page.html"
    )
    lead = "Activations need the model, which a page does not have. This command puts your text on it:"
    shown = f'<div class="code"><pre dir="ltr">{esc(command)}</pre></div>'
    return part("test", "Test your own text", lead, shown, size)


def _made(pages: FeaturePages, size: int) -> str:
    r = pages.readings
    facts = {"model": r.model, "site": r.site, "texts": r.texts, "features": r.chosen, **r.settings}
    facts |= {f"dictionary, {name}": value for name, value in pages.facts.items() if value is not None}
    rows = "".join(f"<dt>{esc(n)}</dt><dd>{esc(_plain(v))}</dd>" for n, v in facts.items())
    return part("made", "How this was made", "", f'<dl class="facts-list">{rows}</dl>', size)


def _plain(value: object) -> str:
    return (
        f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)
    )


def _spaced(name: str) -> str:
    """A token by itself: its space is told apart from none."""
    return esc(name.replace("\n", "↵").replace(" ", "␣")) or "∅"
