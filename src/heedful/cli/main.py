"""The command line. Torch, transformers, scipy and pyarrow are imported inside commands, so help is quick.

Results go to stdout, all else to stderr. A user's mistake is one line, "heedful: ...", and exit code 2.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from functools import cache
from typing import Annotated, Any

import typer
import typer.core

from heedful._version import __version__
from heedful.cli import threads
from heedful.cli.checked_options import check_options
from heedful.cli.commands.attention import attention
from heedful.cli.commands.audit import audit
from heedful.cli.commands.doctor import doctor
from heedful.cli.commands.explain import explain
from heedful.cli.commands.features import app as features_app
from heedful.cli.commands.generate import generate
from heedful.cli.commands.heads import app as heads_app
from heedful.cli.commands.lab import app as lab_app
from heedful.cli.commands.methods import methods
from heedful.cli.commands.metrics import metrics
from heedful.cli.commands.report import report
from heedful.cli.commands.serve import serve
from heedful.cli.commands.steer import steer
from heedful.cli.commands.trial import TrialCommand, trial
from heedful.cli.commands.zoo import app as zoo_app
from heedful.cli.interrupts import keep_interrupts
from heedful.cli.streams import drop_output, open_streams
from heedful.core.errors import MEMORY_SENTENCE, HeedfulError, out_of_memory

# Typer brings click along inside itself or beside itself, depending on its version.
UsageMistake: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

SHOWN = 100  # characters of a long word that an error repeats
LONG_WORD = re.compile(rf"\S{{{2 * SHOWN + 50},}}")
# in the order in which people need them: first explain and trust, then what is there, then research
ORDER = (
    *("explain", "audit", "report", "serve"),
    *("methods", "metrics", "doctor", "zoo"),
    *("attention", "heads", "trial", "generate", "features", "steer", "lab"),
)


class CommandsInOrder(typer.core.TyperGroup):
    """Typer lists commands before groups; the help lists all of them in ORDER."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=ORDER.index)


app = typer.Typer(name="heedful", cls=CommandsInOrder, rich_markup_mode=None, pretty_exceptions_enable=False)
for command in (explain, audit, report, serve, methods, metrics, doctor, attention, generate, steer):
    app.command()(command)
app.command(cls=TrialCommand)(trial)
for name, group in (("zoo", zoo_app), ("heads", heads_app), ("features", features_app), ("lab", lab_app)):
    app.add_typer(group, name=name)


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
    """Explain transformer models, and find out which explanation to trust.

    \b
    heedful explain "The pasta was not great, but the staff were wonderful"
    heedful explain "the staff were wonderful" --html why.html
    heedful audit reviews.csv --out run/
    heedful report run/
    heedful attention "the service is not bad" --html heads.html
    heedful generate "Once upon a time" --all
    heedful doctor zoo:sentiment

    For options and more examples of a command: heedful COMMAND --help
    """


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 after a claim that failed, 2 for a user's mistake, 130
    after Ctrl-C."""
    if arguments is None:  # called as a program, not from Python
        open_streams()
        keep_interrupts()
        threads.as_program = True
        threads.wait_passively()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show ▲ gets ?, not a traceback
    words = sys.argv[1:] if arguments is None else arguments
    words = [*words, "--help"] if words in ([], ["zoo"], ["heads"], ["features"], ["lab"]) else words
    try:
        result = _command().main(args=words, prog_name="heedful", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except HeedfulError as error:
        return _mistake(str(error))
    except UsageMistake as error:
        return _mistake(_with_hint(error))
    except typer.Exit as leaving:
        return int(leaving.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:  # the reader of our pipe has left: say nothing, as other tools do
        drop_output()
        return 141
    except OSError as error:  # a full disk, a file that went away: nothing a traceback would explain
        return _system_mistake(error)
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        return _mistake(MEMORY_SENTENCE)


@cache
def _command() -> Any:
    return check_options(typer.main.get_command(app))


def _with_hint(error: Any) -> str:
    """What is wrong with a command line. A second argument is often a model, or a text without quotes."""
    message = str(error.format_message())
    context = getattr(error, "ctx", None)
    options = {name for each in context.command.params for name in each.opts} if context else set()
    if "unexpected extra argument" not in message or "--model" not in options:
        return message
    return f"{message.rstrip('.')}. Name a model with --model, and put a text in quotes."


def _system_mistake(error: OSError) -> int:
    """What the system refused: one line with the file, if it has one."""
    why = error.strerror or str(error)
    if error.filename is not None:
        return _mistake(f"{error.filename}: {why}")
    try:
        sys.stdout.flush()
    except OSError:
        drop_output()
    return _mistake(f"cannot read or write: {why}")


def _mistake(message: str) -> int:
    from heedful.reports.visible import visible

    line = LONG_WORD.sub(lambda word: f"{word[0][:SHOWN]}…", " ".join(message.split()))
    with suppress(OSError):  # nobody reads it
        print(f"heedful: {visible(line)}", file=sys.stderr, flush=True)
    return 2
