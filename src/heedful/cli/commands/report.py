"""`heedful report`: open a run folder again."""

from __future__ import annotations

from heedful.cli import options as o
from heedful.cli.console import (
    print_stderr,
    put_json,
    write,
)


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
