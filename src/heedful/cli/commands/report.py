"""`heedful report`: open a run folder again."""

from __future__ import annotations

from heedful.cli import options as o
from heedful.cli.console import (
    print_stderr,
    put_json,
    write,
)


def report(run: o.Folder, html: o.Html = None, as_json: o.AsJson = False) -> None:
    """Write the HTML report of a saved run. The model is not needed.

    \b
    heedful explain "the service is not bad" --out run/
    heedful report run/ --html why.html

    It opens folders written by explain, audit, trial, lab and serve. Without --html the report is written to
    report.html in that folder.
    """
    from heedful.cli.console import opened

    document, page = opened(run)
    if html or not as_json:
        write(html or run / "report.html", page())
        print_stderr(f"wrote {html or run / 'report.html'}")
    if as_json:
        put_json(document())
