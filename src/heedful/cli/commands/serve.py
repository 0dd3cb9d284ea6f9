"""`heedful serve`: the page, on this machine."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from heedful.cli import options as o
from heedful.cli.console import print_stderr, progress_bar, silence_libraries
from heedful.core import defaults
from heedful.core.errors import HeedfulError
from heedful.server.malloc import limit_malloc_arenas

option, argument = typer.Option, typer.Argument
MODELS = "Models that the page offers. Default: zoo:sentiment and zoo:lm."
Models = Annotated[list[str] | None, argument(metavar="MODEL...", help=MODELS)]
HOST = "Address of the server. If other machines can reach the address, users need the printed token."
Host = Annotated[str, option(metavar="ADDRESS", help=HOST)]
Port = Annotated[int, option(min=0, max=65535, help="Port of the web page. 0 means any free port.")]
RUNS = (
    "Save results in this folder. The page also lists the runs in this folder. Default: a temporary folder."
)
Runs = Annotated[Path | None, o.written_folder(help=RUNS)]
TEMPORARY = "results are deleted when the server stops; to keep them: heedful serve --runs FOLDER"
ROOT = "Folder with models. With --allow-load, users of the page may load these models."
Root = Annotated[Path | None, option("--models", metavar="DIR", help=ROOT)]
ALLOW = "Allow users of the page to load other models from this machine."
Allow = Annotated[bool, option("--allow-load", help=ALLOW)]
SAES = "Show the features of the SAE in this folder. Give FOLDER, or MODEL=FOLDER. Repeatable."
Saes = Annotated[list[str] | None, option("--sae", metavar="FOLDER", help=SAES)]
TEXTS = "File with texts that show what features mean. Give FILE, or MODEL=FILE. Repeatable."
Texts = Annotated[list[str] | None, option("--texts", metavar="FILE", help=TEXTS)]
NAMES = "Another host name by which users reach this server. Repeatable."
Names = Annotated[list[str] | None, option("--name", metavar="HOST", help=NAMES)]
TOKEN = "Require a token even on this machine. The token is the value of HEEDFUL_TOKEN, or a new token."
Token = Annotated[bool, option("--token", help=TOKEN)]
Browser = Annotated[bool, option("--open", help="Open the web page in a browser.")]
SHORTEST = 16  # characters of a token somebody chose


def serve(
    models: Models = None,
    host: Host = defaults.HOST,
    port: Port = defaults.PORT,
    runs: Runs = None,
    root: Root = None,
    allow_load: Allow = False,
    sae: Saes = None,
    texts: Texts = None,
    name: Names = None,
    token: Token = False,
    browser: Browser = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Open a web page to explain and edit texts, and to steer models.

    \b
    heedful serve
    heedful serve zoo:sentiment --port 9000 --runs runs/
    heedful serve ./my-model --sae ./my-sae --texts texts.txt
    heedful serve zoo:lm --host 0.0.0.0

    The page runs on this machine, and nothing is sent elsewhere. Ctrl-C stops the server. With --runs,
    results are saved as run folders. heedful report opens these folders. If other machines can reach the
    address of --host, users need a token. The printed link contains the token.
    """
    silence_libraries()
    limit_malloc_arenas()
    try:
        from heedful.server import app
        from heedful.server.model_pool import paired
        from heedful.server.security import new_token
    except ImportError as error:
        raise HeedfulError(
            "the web page needs packages that are not installed",
            str(error),
            "Type: pip install 'heedful[serve]'",
        ) from None
    given = list(dict.fromkeys(models or defaults.SERVED_MODELS))
    config = app.ServerConfig(
        host=host,
        port=port,
        runs=runs,
        models=root,
        allow_load=allow_load,
        token=_token(token) or new_token(host),
        names=tuple(name or ()),
        dictionaries=paired(sae or [], given, "--sae"),
        texts=paired(texts or [], given, "--texts"),
        allow_pickle=allow_pickle,
    )
    with progress_bar(f"loading {', '.join(given)}"):
        server = app.prepare(given, config)
    print_stderr(TEMPORARY if runs is None else f"results and runs: {runs}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does
    if not app.run(server, browser):
        _exit_at_once()


def _exit_at_once() -> None:
    """A call of the model does not end: leave without taking the interpreter down, which would abort."""
    print_stderr("a job did not finish in time and was abandoned")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _token(wanted: bool) -> str | None:
    if not wanted:
        return None
    import secrets

    result = os.environ.get("HEEDFUL_TOKEN", "")
    if result and (
        len(result) < SHORTEST or not result.isascii() or not result.isprintable() or " " in result
    ):
        raise HeedfulError(
            "HEEDFUL_TOKEN cannot be used as a token",
            f"it needs at least {SHORTEST} printable ASCII characters and no spaces",
            "Choose a longer one",
        )
    return result or secrets.token_urlsafe(32)
