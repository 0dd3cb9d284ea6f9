"""`heedful report`: open a run folder again."""

from __future__ import annotations

from heedful.cli import options as o
from heedful.cli.console import (
    print_stderr,
    put_json,
    write,
)


def report(run: o.Folder, html: o.Html = None, as_json: o.AsJson = False) -> None:
    """Write the HTML report of any saved run. The model is not needed.

    \b
    heedful explain "the service is not bad" --out run/
    heedful report run/ --html why.html

    The command opens every folder that --out or the web page wrote. Without --html, it writes the report to
    the file report.html in that folder.
    """
    from heedful.io.run_folder import read, refusing_damage

    result = read(run, most=None)
    if html or not as_json:
        with refusing_damage(run):  # values that fit their types may still not fit together
            page = result.page()
        write(html or run / "report.html", page)
        print_stderr(f"wrote {html or run / 'report.html'}")
    if as_json:
        with refusing_damage(run):
            document = result.to_dict()
        put_json(document)
