"""`heedful features page` and `heedful features interpret`: what features fire on, do, and mean."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

from heedful.cli import options as o
from heedful.cli.commands.features_texts import TextsOrZoo, texts_for
from heedful.cli.console import (
    check_save,
    print_stderr,
    progress_bar,
    put_document,
    put_json,
    say_written,
    silence_libraries,
    write,
)
from heedful.core.errors import HeedfulError
from heedful.core.numbers import duration
from heedful.core.whole_numbers import whole_number

SAE_HELP = "zoo:lm, or an SAE folder of heedful features train, SAELens or dictionary-learning."
Folder = Annotated[Path, o.argument(metavar="SAE", help=SAE_HELP)]
NAMED = "Numbers of the features. Repeatable. Default: heedful chooses features."
Named = Annotated[
    list[str] | None,
    o.option("--feature", metavar="N,...", help=NAMED),
]
CHOOSE = (
    "How features are chosen: random:N, most-active:N, strongest:N, spread:N (from rare to frequent) or "
    "any:N (includes features that are never active)."
)
Choose = Annotated[str, o.option(metavar="RULE", help=CHOOSE)]
OWN = "Also show the activations on this text. Repeatable."
Own = Annotated[list[str] | None, o.option("--text", metavar="TEXT", help=OWN)]
Page = Annotated[Path, o.written_file("--html", help="Write the report to this HTML file.")]
Examples = Annotated[
    int, o.option(min=1, help="Number of examples with the highest activations, per feature.")
]
QUANTILES = "Number of levels of activation. Examples from each level are also shown."
Quantiles = Annotated[int, o.option(min=1, help=QUANTILES)]
Rows = Annotated[
    int | None, o.option(min=1, metavar="N", help="Stop after about N tokens. Default: read all texts.")
]
Site = Annotated[
    str | None,
    o.option(
        metavar="SITE",
        help="Site to read: a place in the model. Default: the site where the SAE was trained.",
    ),
]
Count = Annotated[
    int, o.option("--features", min=1, metavar="N", help="Number of features, drawn at random.")
]
Llm = Annotated[
    bool, o.option("--llm", help="Use the language model at HEEDFUL_LLM_URL. Texts are sent there.")
]
LlmModel = Annotated[
    str | None, o.option(metavar="NAME", help="With --llm: name of the model on that server.")
]
CACHE = "With --llm: folder for the answers of the language model."
Cache = Annotated[Path, o.written_folder("--cache", help=CACHE)]
HELD = "Number of examples per level of activation that score a description. Default: 5, or 1 with --llm."
Held = Annotated[int | None, o.option(min=1, help=HELD)]
Dry = Annotated[bool, o.option("--dry-run", help="With --llm: only show what would be sent.")]


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
    verbose: o.Verbose = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Write a report: when features are active and what they do.

    \b
    heedful features page zoo:lm --choose random:10 --html page.html
    heedful features page sae/ speeches.txt --choose random:10 --html page.html
    heedful features page sae/ speeches.txt --feature 3 --text "We" --html a.html
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
    say_written(save, html, quiet=quiet)
    if as_json:
        put_json({"page": str(html), **result.to_dict()})
        return
    put_document(result.document(), verbose)
    if not quiet:
        print_stderr(f"{len(result)} features, in {duration(time.monotonic() - started)}")


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
    verbose: o.Verbose = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Describe when features are active, and score the description.

    Each description is in words. It is made from some texts and scored on other texts. It is also compared
    with two controls.

    \b
    heedful features interpret zoo:lm --features 50
    heedful features interpret sae/ speeches.txt --model zoo:lm --features 50
    heedful features interpret sae/ speeches.txt --llm --llm-model NAME --dry-run

    By default, simple rules make the descriptions, and nothing leaves the machine. With --llm, a language
    model makes them, and texts are sent to its server. Set the address of the server in the environment
    variable HEEDFUL_LLM_URL, for example http://localhost:8000/v1. Set the key in HEEDFUL_LLM_KEY.
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
    from heedful.reports.feature import interpretations

    put_document(interpretations(result, {r.feature: r.rate for r in readings}), verbose)
    _noted(readings.notes)
    if chat is not None:
        print_stderr(f"{chat.model}: {chat.cost}")
        if chat.cost.unread:
            print_stderr(f"{chat.cost.unread:,} answers could not be read and count as never active")


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
    numbers = [whole_number(part) for part in parts]
    wrong = [part for part, number in zip(parts, numbers, strict=True) if number is None]
    if wrong or not parts:
        raise HeedfulError(
            f"{wrong[0]!r} is not a feature" if wrong else "no feature is named", fix="Use --feature 3,17"
        )
    return [number for number in numbers if number is not None]


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
    from heedful.reports.visible import visible

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


def _noted(notes: tuple[str, ...]) -> None:
    for line in notes:
        print_stderr(line)
