"""The command line. Torch, transformers, scipy and pyarrow are imported inside commands, so help is quick.

Results go to stdout, all else to stderr. A user's mistake is one line, "heedful: ...", and exit code 2.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, get_args

import typer

from heedful._version import __version__
from heedful.cli import options as o
from heedful.cli import threads
from heedful.cli.commands.attention import attention
from heedful.cli.commands.audit import audit
from heedful.cli.commands.features import app as features_app
from heedful.cli.commands.heads import app as heads_app
from heedful.cli.commands.lab import app as lab_app
from heedful.cli.commands.serve import serve
from heedful.cli.commands.steer import steer
from heedful.cli.commands.trial import TrialCommand, trial
from heedful.cli.commands.zoo import app as zoo_app
from heedful.cli.console import (
    console,
    form,
    print_stderr,
    progress_bar,
    put_json,
    read_input,
    read_text,
    silence_libraries,
    write,
)
from heedful.cli.typed_command import typed
from heedful.core.errors import HeedfulError

# Typer brings click along inside itself or beside itself, depending on its version.
UsageMistake: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

app = typer.Typer(name="heedful", rich_markup_mode=None, pretty_exceptions_enable=False)
app.add_typer(zoo_app, name="zoo")
app.add_typer(heads_app, name="heads")
app.add_typer(features_app, name="features")
app.add_typer(lab_app, name="lab")
app.command()(audit)
app.command()(attention)
app.command(cls=TrialCommand)(trial)
app.command()(steer)
app.command()(serve)


def _version(wanted: bool) -> bool:
    if wanted:
        print(f"heedful {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Explain transformer models and see which explanation to heed.

    \b
    heedful explain "the service is not bad"
    heedful explain "the service is not bad" --html why.html
    heedful attention "the service is not bad" --html heads.html
    heedful generate "Once upon a time" --all
    heedful doctor zoo:sentiment
    """


@app.command()
def explain(
    text: o.Text = None,
    model: o.Model = "zoo:sentiment",
    pair: o.Pair = None,
    chat: o.Chat = None,
    method: o.Methods = None,
    target: o.Target = None,
    contrast: o.Contrast = None,
    position: o.Position = None,
    sequence: o.Sequence = None,
    given: o.Given = None,
    unit: o.Unit = "word",
    operator: o.Operator = None,
    param: o.Params = None,
    seed: o.Seed = 0,
    budget: o.Budget = None,
    evidence: o.Evidence = True,
    draws: o.Draws = None,
    features: o.Features = None,
    long: o.Long = "error",
    html: o.Html = None,
    save: o.Save = None,
    full: o.Full = False,
    as_json: o.AsJson = False,
    as_csv: o.AsCsv = False,
    dry_run: o.DryRun = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Explain one prediction with several methods, side by side.

    \b
    heedful explain "the service is not bad"
    heedful explain "the service is not bad" --method occlusion,grad-l2 --operator delete
    heedful explain "the service is not bad" --method all --dry-run
    heedful explain "not bad" --target negative --contrast positive --html why.html
    heedful explain "Once upon a" --model zoo:lm --target " time"
    heedful explain "Once upon a" --model zoo:lm --sequence " time" --contrast " hill far away"
    echo "the food was fine" | heedful explain --json

    The control method `random` is always run too: it shows what no knowledge of the model looks like.
    Then words are deleted, best first by each method and at random, to see which methods the model follows.
    Ctrl-C shows (and saves) what is finished.
    """
    from heedful.cli.commands.explain import ExplainRequest, OutputChoice, command

    out = OutputChoice(form(as_json, as_csv), html, save, full, quiet)
    result = read_input(text, pair, chat)
    wanted = {
        "label": target,
        "contrast": contrast,
        "position": position,
        "sequence": sequence,
        "given": given,
    }
    wish = ExplainRequest(
        model=model,
        text=result,
        methods=method or [],
        target=wanted,
        unit=unit,
        operator=operator,
        param=param or [],
        seed=seed,
        budget=budget,
        long=long,
        allow_pickle=allow_pickle,
        evidence=evidence,
        draws=draws,
        features=features,
        command=typed(**_spelled(result)),
    )
    command(wish, out, dry_run)


def _spelled(said: Any) -> dict[str, str]:
    """What was read, by the argument and the option that would give it; a chat is known by its file."""
    if isinstance(said, str):
        return {"text": said}
    return {"text": said[0], "pair": said[1]} if isinstance(said, tuple) else {}


@app.command()
def generate(
    prompt: o.Prompt = None,
    model: o.Model = "zoo:lm",
    strategy: o.Strategy = "greedy",
    every: o.Every = False,
    max_new_tokens: o.MaxNewTokens = 40,
    temperature: o.Temperature = None,
    top_k: o.TopK = 50,
    top_p: o.TopP = 0.9,
    beams: o.Beams = 4,
    why: o.Why = None,
    unit: o.Unit = "word",
    operator: o.Operator = None,
    budget: o.WhyBudget = None,
    seed: o.Seed = 0,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Continue a text with a language model, and say why it wrote what it wrote.

    \b
    heedful generate "Once upon a time"
    heedful generate "Once upon a time" --strategy top-p --top-p 0.8 --seed 3
    heedful generate "Once upon a time" --all
    heedful generate "Once upon a time" --why grad-x-input --why occlusion --max-new-tokens 8
    heedful generate "Once upon a time" --why lime --unit token --operator pad --budget 200 --max-new-tokens 2

    With --why, Ctrl-C shows the tokens that are explained.
    """
    text = read_text(prompt, "prompt")
    silence_libraries()
    from heedful.cli.commands.generate import GenerateRequest, Why, command

    options = {"max_new_tokens": max_new_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    chosen = get_args(o.Strategies) if every else (strategy,)
    requested = Why(why or [], unit, operator, budget)
    line = typed(prompt=text)
    wish = GenerateRequest(
        model=model,
        prompt=text,
        strategies=chosen,
        options=options | {"beams": beams},
        why=requested,
        seed=seed,
        allow_pickle=allow_pickle,
        command=line,
    )
    command(wish, as_json, quiet)


@app.command()
def doctor(model: o.ModelName, as_json: o.AsJson = False, allow_pickle: o.Pickle = False) -> None:
    """Say what a model is, which methods can explain it, and why the others cannot.

    \b
    heedful doctor zoo:sentiment
    heedful doctor zoo:lm --json
    """
    silence_libraries()
    import heedful
    from heedful.core import registry

    with progress_bar(f"loading {model}"):
        loaded = heedful.load(model, allow_pickle=allow_pickle)
        support = registry.support(loaded)
    facts = {**loaded.facts(), "capabilities": sorted(loaded.capabilities)}
    methods = [{"method": s.method, "ok": s.ok, "why": s.why} for s in support]
    if as_json:
        put_json({**facts, "methods": methods})
        return
    from heedful.reports.doctor_terminal import render

    console().print(render(facts, methods))


@app.command()
def report(run: o.Folder, html: o.Html = None, as_json: o.AsJson = False) -> None:
    """Make the page of a saved explanation, audit, trial, lab, atlas, feature or steer; no model is needed.

    \b
    heedful explain "the service is not bad" --save run/
    heedful report run/ --html why.html

    Without --html the page is written into the run folder as report.html.
    """
    from heedful.cli.console import opened

    document, page = opened(run)
    if html or not as_json:
        write(html or run / "report.html", page())
        print_stderr(f"wrote {html or run / 'report.html'}")
    if as_json:
        put_json(document())


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 after a claim that failed, 2 for a user's mistake, 130
    after Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show ▲ gets ?, not a traceback
    if arguments is None:  # called as a program, not from Python
        threads.as_program = True
        threads.wait_passively()
    words = sys.argv[1:] if arguments is None else arguments
    words = [*words, "--help"] if words in ([], ["zoo"], ["heads"], ["features"], ["lab"]) else words
    try:
        result = app(args=words, prog_name="heedful", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except HeedfulError as error:
        return _mistake(str(error))
    except UsageMistake as error:
        return _mistake(error.format_message())  # type: ignore[attr-defined]
    except typer.Exit as leaving:
        return int(leaving.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:  # the reader of our pipe has left: say nothing, as other tools do
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _mistake(message: str) -> int:
    from heedful.reports.columns import visible

    print(f"heedful: {visible(' '.join(message.split()))}", file=sys.stderr)
    return 2
