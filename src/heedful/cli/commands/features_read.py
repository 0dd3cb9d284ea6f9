"""`heedful features page` and `heedful features interpret`: what features fire on, do, and mean."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

from heedful.cli import options as o
from heedful.cli.commands.features_texts import TextsOrZoo, texts_for
from heedful.cli.console import (
    check_save,
    console,
    print_stderr,
    progress_bar,
    put_json,
    silence_libraries,
    write,
)
from heedful.core.errors import HeedfulError
from heedful.core.numbers import duration, with_interval

SAE_HELP = "An autoencoder written by heedful features train, SAELens or dictionary-learning; or zoo:lm."
Folder = Annotated[Path, o.argument(metavar="SAE", help=SAE_HELP)]
Named = Annotated[
    list[str] | None,
    o.option("--feature", metavar="N,...", help="Which features; repeatable. Default: by rule."),
]
CHOOSE = "random:N, most-active:N, strongest:N, spread:N or any:N."
Choose = Annotated[str, o.option(metavar="RULE", help=CHOOSE)]
Own = Annotated[
    list[str] | None, o.option("--text", metavar="TEXT", help="Your own text on the page; repeatable.")
]
Page = Annotated[Path, o.option("--html", metavar="FILE", help="The page.")]
Examples = Annotated[int, o.option(min=1, help="Strongest examples of a feature.")]
Quantiles = Annotated[int, o.option(min=1, help="Parts of its activations that examples are drawn from.")]
Rows = Annotated[int | None, o.option(min=1, metavar="N", help="Read N tokens. Default: all texts.")]
Site = Annotated[str | None, o.option(metavar="SITE", help="Where. Default: what it was trained on.")]
Count = Annotated[int, o.option("--features", min=1, metavar="N", help="How many, drawn at random.")]
Llm = Annotated[
    bool, o.option("--llm", help="Ask the language model at HEEDFUL_LLM_URL: texts are sent there.")
]
LlmModel = Annotated[str | None, o.option(metavar="NAME", help="--llm: which of its models.")]
Cache = Annotated[Path, o.option("--cache", metavar="FOLDER", help="--llm: answers are kept here.")]
Held = Annotated[
    int | None, o.option(min=1, help="Held-out firings of each quantile. Default: 5, with --llm 1.")
]
Dry = Annotated[
    bool, o.option("--dry-run", help="--llm: show what would be sent, and how much; send nothing.")
]


def page(
    sae: Folder,
    html: Page,
    texts: TextsOrZoo = None,
    model: o.Model = "zoo:lm",
    feature: Named = None,
    choose: Choose = "random:10",
    text: Own = None,
    examples: Examples = 10,
    quantiles: Quantiles = 10,
    rows: Rows = None,
    site: Site = None,
    text_column: o.TextColumn = "text",
    seed: o.Seed = 0,
    save: o.Save = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Write one page about a few features: what they fire on, what they do, what they seem to mean.

    \b
    heedful features page zoo:lm --choose random:10 --html page.html
    heedful features page sae/ speeches.txt --model zoo:lm --choose random:10 --html page.html
    heedful features page sae/ speeches.txt --feature 3,17 --text "We the people" --html page.html
    """
    check_save(save, "feature-pages")
    silence_libraries()
    from heedful.features.reading.feature_pages import feature_pages

    numbers = numbered(feature)
    started = time.monotonic()
    with progress_bar(f"loading {model}", quiet) as say:
        file, loaded, dictionary = opened(model, sae, texts, text_column, allow_pickle)
        result = feature_pages(
            loaded,
            dictionary,
            file,
            numbers,
            own=text or (),
            choose=choose,
            examples=examples,
            quantiles=quantiles,
            rows=rows,
            site=site,
            text_column=text_column,
            seed=seed,
            progress=say,
        )
    write(html, result.page())
    if save:
        result.save(save)
        if not quiet:
            print_stderr(f"wrote {save}")
    if as_json:
        put_json({"page": str(html), **result.to_dict()})
        return
    show([one.interpretation for one in result], {one.feature: one.reading.rate for one in result})
    _noted(result.readings.notes)
    print_stderr(f"{html}: {len(result)} features, in {duration(time.monotonic() - started)}")


def interpret(
    sae: Folder,
    texts: TextsOrZoo = None,
    model: o.Model = "zoo:lm",
    feature: Named = None,
    features: Count = 10,
    llm: Llm = False,
    llm_model: LlmModel = None,
    cache: Cache = Path(".heedful-llm"),
    dry_run: Dry = False,
    held: Held = None,
    rows: Rows = None,
    site: Site = None,
    text_column: o.TextColumn = "text",
    seed: o.Seed = 0,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Say what features fire on, and score it on texts it was not made from, beside two controls.

    \b
    heedful features interpret zoo:lm --features 50
    heedful features interpret sae/ speeches.txt --model zoo:lm --features 50
    heedful features interpret sae/ speeches.txt --llm --llm-model NAME --dry-run
    HEEDFUL_LLM_URL=http://localhost:8000/v1 heedful features interpret sae/ a.txt --llm --llm-model NAME

    Rules by default: nothing leaves the machine. --llm sends texts to HEEDFUL_LLM_URL (key: HEEDFUL_LLM_KEY).
    """
    silence_libraries()
    from heedful.features.interpretation.interpret import HELD_OUT_FIRINGS
    from heedful.features.interpretation.interpret import interpret as run
    from heedful.features.reading.read_features import read_features

    mind, chat = _mind(llm, llm_model, dry_run, cache)
    numbers = numbered(feature)
    with progress_bar(f"loading {model}", quiet) as say:
        file, loaded, dictionary = opened(model, sae, texts, text_column, allow_pickle)
        readings = read_features(
            loaded,
            dictionary,
            file,
            numbers,
            choose=f"random:{features}",
            rows=rows,
            site=site,
            text_column=text_column,
            seed=seed,
            progress=say,
        )
        controls = ("shuffled",) if llm else ("shuffled", "permuted")
        result = run(
            list(readings),
            mind,
            mind,
            controls=controls,
            held=held or (1 if llm else HELD_OUT_FIRINGS),
            seed=seed,
            progress=say,
        )
    if dry_run:
        _rehearsed(chat, as_json)
        return
    if as_json:
        put_json(_document(readings, result, chat))
        return
    show(result, {r.feature: r.rate for r in readings})
    _noted(readings.notes)
    if chat is not None:
        print_stderr(f"{chat.model}: {chat.cost}")
        if chat.cost.unread:
            print_stderr(f"{chat.cost.unread:,} answers could not be read and count as silent everywhere")


def opened(
    model: str, sae: Path, texts: Path | None, column: str, allow_pickle: bool
) -> tuple[Path, Any, Any]:
    """(texts, model, autoencoder): mistakes in the first and the last are told before the model is loaded."""
    from heedful.features.activations.windows import open_texts

    file = texts_for(texts, sae)
    open_texts(file, column)
    import heedful

    dictionary = heedful.SAE.load(sae, allow_pickle=allow_pickle)
    return file, heedful.load(model, allow_pickle=allow_pickle), dictionary


def numbered(given: list[str] | None) -> list[int] | None:
    """3,17 and repetitions."""
    if not given:
        return None
    parts = [part.strip() for text in given for part in text.split(",") if part.strip()]
    wrong = [part for part in parts if not (part.isascii() and part.isdigit())]
    if wrong or not parts:
        raise HeedfulError(
            f"{wrong[0]!r} is no feature" if wrong else "no feature is named", fix="Use --feature 3,17"
        )
    return [int(part) for part in parts]


def _mind(llm: bool, name: str | None, dry_run: bool, cache: Path) -> tuple[Any, Any]:
    """(explainer and simulator, what is asked or None)"""
    from heedful.features.interpretation.rules import Rules

    if not llm:
        if name or dry_run:
            raise HeedfulError("--llm-model and --dry-run are for --llm", fix="Add --llm, or drop them")
        return Rules(), None
    from heedful.features.interpretation.llm import DryRunEndpoint, Endpoint
    from heedful.features.interpretation.prompts import LanguageModelInterpreter

    if not name:
        raise HeedfulError("no language model is named", fix="Add --llm-model NAME")
    chat = DryRunEndpoint(name) if dry_run else Endpoint(name, cache=cache)
    return LanguageModelInterpreter(chat, name), chat


def _rehearsed(chat: Any, as_json: bool) -> None:
    """What would be sent: all of it in JSON, the first question of each kind otherwise."""
    cost = chat.cost.to_dict()
    if as_json:
        put_json({"dry run": True, "cost": cost, "requests": [list(messages) for messages in chat.asked]})
        return
    from heedful.features.interpretation.prompts import EXPLAIN

    kinds: dict[bool, Any] = {}
    for messages in chat.asked:
        kinds.setdefault(messages[0]["content"] == EXPLAIN, messages)
    for messages in kinds.values():
        for message in messages:
            print(f"[{message['role']}]\n{_visible(message['content'])}\n")
    print(f"Nothing was sent. It would be {chat.cost} at most.")


def _visible(text: str) -> str:
    from heedful.reports.columns import visible

    return "\n".join(visible(line) for line in text.split("\n"))


def _document(readings: Any, found: Any, chat: Any) -> dict[str, Any]:
    from heedful.features.interpretation.results import together

    means = {
        who or "explanations": {name: score.to_dict() for name, score in scores.items()}
        for who, scores in together(found).items()
    }
    return {
        "model": readings.model,
        "site": readings.site,
        "texts": readings.texts,
        "chosen": readings.chosen,
        "settings": readings.settings,
        "notes": list(readings.notes),
        "means": means,
        "features": [one.to_dict() for one in found],
        "cost": chat.cost.to_dict() if chat else None,
    }


def show(found: list[Any], rates: dict[int, float]) -> None:
    """A table with one row per feature, and the means beside their controls below."""
    from rich.table import Table
    from rich.text import Text

    from heedful.features.interpretation.results import together

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("feature", "fires on", "accuracy", "Pearson", "p", "shuffled"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("said to fire on", overflow="fold")
    for one in found:
        cells = ["–"] * 4
        if one.scores is not None:
            other = one.controls.get("shuffled")
            linear, right = one.scores.pearson, one.scores.detection
            cells = [f"{right.value:.2f}", f"{linear.value:.2f}", f"{linear.p:.3f}"]
            cells.append(f"{other.detection.value:.2f}" if other else "–")
        result = one.explanation.text if one.scores is not None else "; ".join(one.notes)
        table.add_row(str(one.feature), f"{100 * rates[one.feature]:.3g} %", *cells, Text(_visible(result)))
    console().print(table)
    names = {"": "explanations", "shuffled": "of another feature", "permuted": "on shuffled activations"}
    for who, scores in together(found).items():
        text = ", ".join(
            f"{measure} {with_interval(score.value, score.low, score.high)}"
            for measure, score in scores.items()
        )
        print(f"{names[who]}: {text.replace('detection', 'balanced accuracy')}")


def _noted(notes: tuple[str, ...]) -> None:
    for line in notes:
        print_stderr(line)
