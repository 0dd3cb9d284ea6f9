"""`heedful report`: open a run folder again."""

from __future__ import annotations

from heedful.cli import options as o
from heedful.cli.console import (
    console,
    put_json,
    say_written,
    write,
)

MORE = "More with -v, and in the report."


def report(
    run: o.Folder,
    html: o.Html = None,
    as_json: o.AsJson = False,
    verbose: o.Verbose = False,
    quiet: o.Quiet = False,
) -> None:
    """Show a saved run, and write its HTML report. The model is not needed.

    \b
    heedful explain "the service is not bad" --out run/
    heedful report run/
    heedful report run/ --html why.html

    The command can open any folder that was written by --out or by the web page. It prints the result, and
    then the name of the report. Without --html, the report is the file report.html in that folder. With
    --quiet, the command prints only errors. With --json, it prints only the JSON document, and it writes a
    report only if you also give --html.
    """
    from heedful.core.result import stated
    from heedful.io.files import write_inside
    from heedful.io.run_folder import read, refusing_damage
    from heedful.reports import terminal
    from heedful.reports.html import page as page_of

    result = read(run, most=None).checked()
    with refusing_damage(run):  # values that fit their types may still not fit together
        document = result.document()
        page = page_of(document) if html or not as_json else ""
        data = {**result.to_dict(), **stated(result)} if as_json else {}
    place = html or (None if as_json else run / "report.html")
    if html is not None:
        write(html, page)
    elif place is not None:
        write_inside(run, place.name, page)
    if as_json:
        put_json(data)
    elif not quiet:
        terminal.show(document, console(), verbose, more=MORE)
    say_written(None, place, quiet=quiet)
