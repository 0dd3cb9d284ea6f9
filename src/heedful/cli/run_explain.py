"""The work behind `heedful explain` and what commands print; imported when a command runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import heedful
from heedful.cli.console import (
    announce,
    captions,
    console,
    print_stderr,
    progress_bar,
    put_json,
    refuse_both,
    say_written,
    silence_libraries,
    write,
)
from heedful.cli.picture_header import check_picture
from heedful.cli.threads import fit_threads
from heedful.comparisons.audit_advice import advice_of, with_advice
from heedful.comparisons.execute import execute
from heedful.comparisons.internals import with_features
from heedful.comparisons.planning import Plan, plan
from heedful.comparisons.result import Comparison
from heedful.core import registry
from heedful.core.command_line import param_value
from heedful.core.defaults import ALL, EFFECTS_ONLY
from heedful.core.errors import HeedfulError
from heedful.core.numbers import duration
from heedful.core.phrases import InputWords, left_out
from heedful.core.progress import Step

if TYPE_CHECKING:
    from heedful.core.model import Model


MAX_PATH = 4096  # characters of a path
MORE = "More: -v for every {}, evidence, cost and notes; --html FILE for a report."


@dataclass(frozen=True)
class ExplainRequest:
    """What the command line asked for."""

    model: str
    text: Any
    methods: list[str]
    target: dict[str, Any]
    unit: str
    operator: str | None
    param: list[str]
    seed: int
    budget: int | None
    long: str
    allow_pickle: bool
    evidence: bool = False
    draws: int | None = None
    features: str | None = None  # an SAE
    audit: Path | None = None  # the run folder of an audit
    caption: str | None = None  # the text that a picture is compared with
    labels: str | None = None  # captions to choose from
    regions: Mapping[str, Any] = field(default_factory=dict)  # of a picture: boxes or masks by name
    command: str | None = None  # what to type for the same


@dataclass(frozen=True)
class OutputChoice:
    """Where it goes, and in which form."""

    form: str  # "text", "json" or "csv" on standard output
    html: Path | None = None
    save: Path | None = None
    verbose: bool = False
    quiet: bool = False
    keep: str = "png"  # what --out saves of a picture

    def note(self, message: str) -> None:
        if not self.quiet:
            print_stderr(message)


def command(wish: ExplainRequest, out: OutputChoice, dry_run: bool) -> None:
    """`heedful explain`: exit code 130 after Ctrl-C, once what was finished is out."""
    silence_libraries()
    if dry_run:
        return show_plan(prepare(wish, out.quiet), out.form)
    comparison = run(wish, out)
    if out.save:
        comparison.save(out.save, keep=out.keep)
    if out.html:
        write(out.html, comparison.page())
    show(comparison, out)
    say_written(out.save, out.html, quiet=out.quiet)  # last, so that it does not scroll away
    if stopped := comparison.settings.get("interrupted"):
        print_stderr(f"interrupted in {stopped}: what was finished before is shown")
        raise typer.Exit(130)


def prepare(wish: ExplainRequest, quiet: bool = False) -> Plan:
    """Load the model and find out what is to be done."""
    names = [name.strip() for part in wish.methods for name in part.split(",") if name.strip()]
    effects_only = bool(wish.regions) and not wish.methods and wish.audit is None
    if effects_only:  # a few regions cannot show which method is right
        names = ["occlusion"]
    if wish.methods and not names:
        raise HeedfulError("no method was named", fix=f"Known: all, {', '.join(registry.explainers())}")
    for name in names if names != [ALL] else []:
        registry.get(name)  # a misspelt method is an error before the model is loaded
    refuse_both(wish.caption, wish.labels)
    target = {key: value for key, value in wish.target.items() if value is not None}
    audit = None if wish.audit is None else advice_of(wish.audit)
    check_picture(wish.model, wish.text)
    with progress_bar(f"loading {wish.model}", quiet):
        model: Model = heedful.load(wish.model, allow_pickle=wish.allow_pickle, labels=captions(wish.labels))
        fit_threads(model)
        text = with_regions(model, input_for(model, wish.text), wish.regions)
        text = with_caption(model, text, wish.caption)
        chosen = with_advice(model, ALL if names == [ALL] else names or None, audit)
        able = [s.method for s in registry.support(model) if s.ok]
        params = _params(wish, _running(chosen, able, model.default_methods))
        made = plan(
            model,
            text,
            chosen,
            target or None,
            region_unit(wish.unit) if wish.regions else wish.unit,
            wish.seed,
            wish.budget,
            long=wish.long,
            params=params,
            evidence=wish.evidence,
            draws=wish.draws,
        )
    given: dict[str, Any] = {"features": wish.features} if wish.features else {}
    given |= {"source": wish.model, "params": params, "target": target or None}
    given |= {} if isinstance(wish.text, bytes) else {"text": wish.text}
    given |= {EFFECTS_ONLY: True} if effects_only else {}
    given |= {"command": wish.command or ""}  # "": made here, but it cannot be typed again
    given |= {"audit": audit.settings()} if audit is not None else {}
    given |= {"allow_pickle": True} if wish.allow_pickle else {}
    return replace(made, settings={**made.settings, **given})


def input_for(model: Model, given: Any) -> Any:
    """What was typed or piped, for a model that reads pictures the path or the bytes of a file."""
    from heedful.io.datasets.pictures import SUFFIXES
    from heedful.modalities.image_files import refuse_address

    if isinstance(given, bytes):
        if model.modality != "text":
            return given
        raise HeedfulError(
            "standard input is a picture",
            f"{model.name} reads text",
            "Name a model that reads pictures, such as --model zoo:digits-vit",
        )
    path = Path(given) if isinstance(given, str) and len(given) < MAX_PATH and "\n" not in given else None
    if model.modality == "text":
        if path is not None and path.suffix.lower() in SUFFIXES and path.is_file():
            raise HeedfulError(
                f"{path} is a picture",
                f"{model.name} reads text",
                "Name a model that reads pictures, such as --model zoo:digits-vit",
            )
        return given
    refuse_address(given)
    if path is None:
        raise HeedfulError(f"{model.name} reads pictures", fix="Name the file of a picture, such as cat.png")
    if path.is_dir():
        raise HeedfulError(
            f"{path} is a folder",
            fix=f"Name one picture in it, or: heedful audit {path} --model {model.name}",
        )
    if not path.exists():
        raise HeedfulError(
            f"there is no file {path}",
            f"{model.name} reads pictures, and heedful looked in {path.parent.resolve()}",
            "Check the name, or give the whole path",
        )
    return path


def with_regions(model: Model, given: Any, regions: Mapping[str, Any]) -> Any:
    """A picture with its regions."""
    if not regions:
        return given
    if model.modality == "text":
        raise HeedfulError(
            f"{model.name} reads text",
            "regions are parts of a picture",
            "Leave --region and --regions out, or name a model that reads pictures",
        )
    return {"picture": given, "regions": regions}


def region_unit(unit: str) -> str:
    """Regions are scored if regions are given; another unit would ignore them."""
    if unit and "region" not in unit.split("+"):
        raise HeedfulError(
            f"--unit {unit} does not score the regions", fix="Leave --unit out, or leave the regions out"
        )
    return unit or "region"


def with_caption(model: Model, given: Any, caption: str | None) -> Any:
    """A picture with its text, for a model that compares the two."""
    if caption is not None and model.modality != "image+text":
        raise HeedfulError(
            f"{model.name} compares no picture with a text",
            fix="Leave --text out, or name a model such as CLIP",
        )
    if model.modality != "image+text":
        return given
    picture = given if isinstance(given, Mapping) else {"picture": given}
    return picture if caption is None else {**picture, "text": caption}


def _running(chosen: list[str] | str | None, able: list[str], usual: Sequence[str]) -> list[str]:
    """Methods that an option may set parameters of."""
    if isinstance(chosen, list):
        return chosen
    return able if chosen == ALL else [name for name in usual if name in able]


def run(wish: ExplainRequest, out: OutputChoice | None = None) -> Comparison:
    quiet = out is not None and out.quiet
    made = prepare(wish, quiet)
    if not quiet:
        announce(made.most_rows, made.seconds, capped=wish.budget is not None)
    with progress_bar("explaining", quiet) as say:
        comparison = execute(made, progress=say)
        if wish.features is None or not comparison.attributions:
            return comparison
        say(Step("features"))
        from heedful.features.sae.autoencoder import SAE

        return with_features(comparison, made.model, SAE.load(wish.features, allow_pickle=wish.allow_pickle))


def show_plan(made: Plan, form: str) -> None:
    """A table of methods, in the order they would run: rows and seconds."""
    if form == "json":
        put_json(made.to_dict())
        return
    if form == "csv":
        raise HeedfulError("--dry-run has no CSV", fix="Use --json")
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("method", "model inputs", "seconds"):
        table.add_column(head, justify="left" if head == "method" else "right", no_wrap=True)
    rows = [(e.name, made.rows[e.name], made.seconds_of(e)) for e in made.order]
    for name, (least, most), seconds in rows:
        count = f"{most:,}" if least == most else f"{least:,} to {most:,}"
        table.add_row(*map(Text, (name, count, f"{seconds:.2f}")))
    if made.weighing:
        table.add_row(
            *map(Text, ("evidence", f"{made.weighing:,}", f"{made.weighing * made.seconds_per_row:.2f}"))
        )
    table.add_row(*map(Text, ("together", f"up to {made.most_rows:,}", f"{made.seconds:.2f}")))
    console().print(table)
    passes = "Methods that read the trace share one pass; sampled ones stop when they are precise."
    print(f"{passes}\nSeconds are rough: one model input takes about {duration(made.seconds_per_row)}.")
    if expensive := left_out(made.skipped):
        print(expensive)


def _params(wish: ExplainRequest, names: list[str]) -> dict[str, dict[str, Any]]:
    """--operator for every method that removes something, then --param METHOD.NAME=VALUE."""
    results = removing(wish.operator, names)
    for setting in wish.param:
        place, equals, value = setting.partition("=")
        method, dot, name = place.partition(".")
        if not (equals and dot and name):
            raise HeedfulError(f"cannot read --param {setting}", fix="Write METHOD.NAME=VALUE")
        registry.get(method)
        results.setdefault(method, {})[name] = param_value(value)
    return results


def removing(operator: str | None, names: list[str]) -> dict[str, dict[str, Any]]:
    """--operator as parameters of every method that removes something."""
    if operator is None:
        return {}
    removers = [name for name in names if "operator" in registry.get(name).params]
    if not removers:
        raise HeedfulError(
            "--operator was given, but none of these methods removes anything", ", ".join(names)
        )
    return {name: {"operator": operator} for name in removers}


def show(comparison: Comparison, out: OutputChoice) -> None:
    if out.form == "json":
        put_json(comparison.to_dict())
    elif out.form == "csv":
        sys.stdout.write(comparison.to_csv())
    else:
        from heedful.reports import terminal

        more = "" if out.html else MORE.format(_part(comparison))
        terminal.show(comparison.document(), console(), out.verbose, more)


def _part(comparison: Comparison) -> str:
    """What one part of the input is called."""
    if comparison.words == InputWords() or not comparison.attributions:
        return "word"
    return comparison.x.unit_noun(str(comparison.settings.get("unit") or ""))
