"""Features of an SAE as a document: what they seem to fire on, examples, then numbers and how it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from heedful.core.document import (
    Bullets,
    Cell,
    Code,
    Column,
    Document,
    Facts,
    Fold,
    Headline,
    Paragraph,
    Row,
    Section,
    Span,
    Table,
    nodes,
    text_table,
)
from heedful.core.numbers import fixed, p_value, short, signed, with_interval
from heedful.features.interpretation.results import Interpretation, together
from heedful.features.interpretation.scores import AgreementScore
from heedful.features.reading.results import FeaturePages, Page
from heedful.reports import one_feature

MEANS = {
    "": "explanations",
    "shuffled": "control, explanations of other features",
    "permuted": "control, the method on shuffled activations",
}
ALPHA = 0.05  # p up to which an explanation counts as better than chance


def document(pages: FeaturePages) -> Document:
    names = {one.feature: name for one in pages if (name := one_feature.name_of(one.interpretation))}
    here = {one.feature for one in pages}
    alone = len(pages) == 1
    return Document(
        _title(pages),
        nodes(
            _headline(pages, names),
            Bullets(tuple(_sentences(pages))),
            None if alone else overview(_rows(pages), here),
            [one_feature.section(one, here, names, more=not alone) for one in pages],
            _mean_table(_explained(pages)),
            _try_own(pages),
            _made(pages),
        ),
    )


def _explained(pages: FeaturePages) -> list[Interpretation]:
    return [one.interpretation for one in pages if one.interpretation is not None]


def _title(pages: FeaturePages) -> str:
    return f"Feature {pages.pages[0].feature}" if len(pages) == 1 else f"{len(pages)} features"


def _headline(pages: FeaturePages, names: Mapping[int, str]) -> Headline:
    r = pages.readings
    text = answer([one.interpretation for one in pages], len(pages))
    if len(pages) == 1:
        text = headline(pages.pages[0].feature, names.get(pages.pages[0].feature, ""))
    return Headline(text, source=source(pages.facts["features"], r.site, r.model))


def headline(feature: int, name: str) -> str:
    return f"Feature {feature} fires on {one_feature.cut(name)}" if name else f"Feature {feature}"


def answer(found: Sequence[Interpretation | None], count: int) -> str:
    """How many explanations are better than chance."""
    tested = [each.scores.detection.p for each in found if each is not None and each.scores is not None]
    if not tested:
        return f"{count} features"
    better = sum(p <= ALPHA for p in tested)
    return f"{better} of {count} features have an explanation that is better than chance"


def source(width: int, site: str, model: str) -> tuple[str | Span, ...]:
    """Which SAE it is, above the headline."""
    return (f"SAE of {width:,} features at ", Span(site, "strong"), " of ", Span(model, "strong"))


def _sentences(pages: FeaturePages) -> list[str]:
    r = pages.readings
    how = "You named the features" if r.chosen == "named" else f"Features were chosen by the rule {r.chosen}"
    dead = sum(one.reading.fired == 0 for one in pages)
    lines = means(_explained(pages)) if len(pages) > 1 else []
    lines.append(f"Read on {r.settings['tokens']:,} tokens of {r.texts}. {how}.")
    if dead:
        lines.append(f"{dead} of {len(pages)} never fired on these texts.")
    return [*lines, *r.notes]


def means(found: Sequence[Interpretation]) -> list[str]:
    """How well explanations predict tokens, mean over features, with the controls."""
    shown = [f"{MEANS[who]} {_plain(scores['detection'])}" for who, scores in together(found).items()]
    if not shown:
        return []
    return [f"Balanced accuracy on texts they were not made from (0.5 is chance): {'; '.join(shown)}."]


def _mean_table(found: Sequence[Interpretation]) -> Fold | None:
    """All three scores, mean over features."""
    rows = [
        [MEANS[who], *(_plain(scores[name]) for name in one_feature.MEASURES)]
        for who, scores in together(found).items()
    ]
    if not rows:
        return None
    heads = ("mean over features", *one_feature.MEASURES.values())
    return Fold("Mean scores of the explanations", (text_table("Mean scores", heads, rows),))


def _plain(score: AgreementScore) -> str:
    return with_interval(score.value, score.low, score.high)


# --- all features in one table ---------------------------------------------------------------------


def _rows(pages: FeaturePages) -> list[tuple[Interpretation | None, float, Page | None]]:
    return [(one.interpretation, one.reading.rate, one) for one in pages]


def interpretations(found: Sequence[Interpretation], rates: Mapping[int, float]) -> Document:
    """What features are said to fire on, without their pages."""
    rows = [(each, rates[each.feature], None) for each in found]
    first = Headline(answer(found, len(found)))
    return Document(
        "Features", nodes(first, Bullets(tuple(means(found))), overview(rows, ()), _mean_table(found))
    )


def overview(
    found: Sequence[tuple[Interpretation | None, float, Page | None]], linked: Sequence[int] | set[int]
) -> Section:
    """One row per feature: its explanation, the score that decides, and the control. The rest is folded."""
    columns = (
        Column("feature"),
        Column("said to fire on", words=True),
        Column("fires on", "of tokens", "fires on"),
        Column("balanced accuracy", "0.5 is chance", "accuracy"),
        Column("p", "of the accuracy", "p"),
        Column("accuracy, control", "explanation of another feature", "control"),
    )
    rows = tuple(Row(_said(each, rate, linked, page)) for each, rate, page in found)
    lead = (
        "Explanations are scored on texts they were not made from, with 95 % intervals. An explanation "
        f"counts as better than chance if the p of its balanced accuracy is {ALPHA:g} or less."
    )
    table = Table("All features", columns, rows, style="overview")
    return Section("All features", nodes(table, _more_numbers(found, linked)), lead, "overview")


def _first(said: Interpretation | None, linked: Sequence[int] | set[int], page: Page | None) -> Cell:
    """The number of the feature."""
    number = said.feature if said is not None else page.feature if page is not None else -1
    return Cell(str(number), link=f"feature-{number}" if number in linked else "")


def _said(
    said: Interpretation | None, rate: float, linked: Sequence[int] | set[int], page: Page | None
) -> tuple[Cell, ...]:
    first, fires = _first(said, linked, page), Cell(f"{short(100 * rate)} %", value=rate)
    if said is None or said.scores is None:
        reason = "; ".join(said.notes) if said is not None else "–"
        return (first, Cell(reason, style="wrap"), fires, *[Cell("–")] * 3)
    control = said.controls.get("shuffled")
    return (
        first,
        Cell(said.explanation.text, style="wrap"),
        fires,
        scored(said.scores.detection),
        _p(said.scores.detection),
        scored(control.detection) if control else Cell("–"),
    )


def _more_numbers(
    found: Sequence[tuple[Interpretation | None, float, Page | None]], linked: Sequence[int] | set[int]
) -> Fold:
    """Another score, which does not decide, and what the feature does."""
    effects = any(page is not None for *_, page in found)
    columns = [Column("feature"), Column("Pearson r"), Column("p", "of Pearson r")]
    if effects:
        columns += [
            Column("largest activation"),
            Column("loss without it", "control: another active feature", "loss without it (control)"),
        ]
    rows = []
    for said, _, page in found:
        score = said.scores.pearson if said is not None and said.scores is not None else None
        cells = (scored(score), _p(score)) if score else (Cell("–"), Cell("–"))
        rows.append(Row((_first(said, linked, page), *cells, *(_effect(page) if effects else ()))))
    table = Table("More numbers of all features", tuple(columns), tuple(rows), style="overview")
    return Fold("More numbers of all features", (table,))


def _p(score: AgreementScore) -> Cell:
    return Cell(p_value(score.p), value=score.p)


def scored(score: AgreementScore) -> Cell:
    """With its interval, which a terminal has no room for."""
    return replace(one_feature.scored(score), brief=fixed(score.value))


def _effect(page: Page | None) -> tuple[Cell, Cell]:
    if page is None:
        return Cell("–"), Cell("–")
    effect = page.effects.ablation
    change = Cell(signed(effect.change), f"({signed(effect.control)})") if effect else Cell("–")
    return Cell(short(page.reading.greatest), value=page.reading.greatest), change


# --- the end ---------------------------------------------------------------------------------------


def _try_own(pages: FeaturePages) -> Fold:
    r = pages.readings
    numbers = ",".join(str(one.feature) for one in pages.pages[:10])
    command = (
        f'heedful features page SAE {r.texts} --model {r.model} --feature {numbers} --text "your own text" '
        "--html page.html"
    )
    lead = "Activations need the model, which a report does not have. This command adds your text to it:"
    return Fold("Test your own text", (Paragraph(lead, "soft"), Code(command, "Command")))


def _made(pages: FeaturePages) -> Fold:
    r = pages.readings
    facts = {"model": r.model, "site": r.site, "texts": r.texts, "features": r.chosen, **r.settings}
    facts |= {f"SAE, {name}": value for name, value in pages.facts.items() if value is not None}
    return Fold("How this was made", (Facts(tuple((name, _fact(value)) for name, value in facts.items())),))


def _fact(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
