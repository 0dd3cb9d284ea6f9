"""Runs labs in full and writes their pages: docs/labs/NAME.md, its figures, and the list of all labs.

    python docs/write_labs.py                 every lab, about an hour and a half on two cores
    python docs/write_labs.py dyck solu       these; the list is written anew
    python docs/write_labs.py out/dyck        what heedful lab run dyck --out out/dyck saved
    python docs/write_labs.py --list          none; only the list

What a page says is what the run said; nothing is edited by hand. `make labs` runs all.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import run_lab_seeds

from heedful.labs import Claim, Figure, LabReport, Said, Table, labs, run_lab
from heedful.view.lab_terminal import number, shown
from heedful.view.svg_file import standalone

FOLDER = Path(__file__).parent / "labs"
LIST = """# Labs

What the field teaches, run on two cores, each lab checking its own claims: `heedful lab run NAME` prints
tables, `--out` writes a page with figures, and the exit code is 1 when a claim fails. In Python:
`heedful.run_lab(name)`.

A page shows the full run of one seed. Another `--seed` changes the digits, and now and then a conclusion,
since claims rest on what was drawn. How often is counted with `--fast`, a smaller run, under seeds that are
drawn from each lab's sources, so that nobody chose them (`make lab-seeds`, [seeds.csv](seeds.csv)).
{seeds}

| lab | minutes | what it shows | after | claims that failed |
|---|---|---|---|---|
"""


def page(report: LabReport) -> str:
    """A lab's page."""
    command = f"heedful lab run {report.lab} --seed {report.settings['seed']}"
    head = f"# {report.title}\n\n*After {escaped(report.cite)}.* {report.answer}\n"
    head += f"The numbers are of `{command}`.\n\n"
    claims = "\n".join(map(line, report.claims))
    body = "\n\n".join(part for given in report.parts if (part := told(report.lab, given)))
    return f"{head}{claims}\n\n{body}\n"


def line(claim: Claim) -> str:
    mark = "✓" if claim.holds else "✗"
    return wrapped(f"- {mark} {escaped(claim.sentence)} *{escaped(number(claim))}*", "  ")


def told(lab: str, given: Said | Table | Figure | Claim) -> str:
    """Claims stand at the top."""
    if isinstance(given, Said):
        return wrapped(escaped(given.text))
    if isinstance(given, Table):
        return "\n".join([f"**{escaped(given.title)}**", "", *rows(given)])
    if isinstance(given, Figure):
        alt = escaped(given.caption).replace("[", "(").replace("]", ")")
        return f"![{alt}]({lab}/{given.name}.svg)\n\n*{escaped(given.caption)}*"
    return ""


def rows(table: Table) -> Iterator[str]:
    def cells(values: tuple[object, ...]) -> str:
        return "| " + " | ".join(escaped(str(value)) for value in values) + " |"

    yield cells(table.columns)
    yield "|---" * len(table.columns) + "|"
    for row in table.rows:
        yield cells(tuple(map(shown, row)))


def escaped(text: str) -> str:
    """Markdown and HTML signs stand for themselves."""
    for sign in "\\`*_{}[]<>|":
        text = text.replace(sign, f"\\{sign}" if sign != "<" else "&lt;")
    return text


def wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def found(given: str) -> LabReport:
    """A saved run, or a new one."""
    return LabReport.load(given) if (Path(given) / "lab.json").is_file() else run_lab(given)


def write(given: str) -> None:
    report = found(given)
    if report.settings["fast"]:
        raise SystemExit(f"{given} is a fast run; pages are of full ones")
    name = report.lab
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for figure in report.figures:
        (folder / f"{figure.name}.svg").write_text(standalone(figure.svg), encoding="utf-8")
    (FOLDER / f"{name}.md").write_text(page(report), encoding="utf-8")
    print(f"{name}: {report.answer} {report.settings['seconds']:.0f} s")


def listed() -> str:
    """The list of all labs, and how their claims fared under other seeds."""
    rows = run_lab_seeds.read()
    now = run_lab_seeds.current(rows)
    lines = []
    for each in labs().values():
        if not (FOLDER / f"{each.name}.md").is_file():
            continue
        count = run_lab_seeds.count_of([row for row in now if row.lab == each.name])
        failed = f"{count.failed} of {count.claims}, {count.runs} seeds" if count.runs else "not counted"
        cells = [
            f"[`{each.name}`]({each.name}.md)",
            f"{each.minutes:g}",
            escaped(each.title),
            escaped(each.cite),
        ]
        lines.append(f"| {' | '.join([*cells, failed])} |")
    return LIST.format(seeds=wrapped(run_lab_seeds.told(rows))) + "\n".join(lines) + "\n"


def main() -> None:
    given = sys.argv[1:]
    for name in [] if given == ["--list"] else given or labs():
        write(name)
    (FOLDER / "index.md").write_text(listed(), encoding="utf-8")


if __name__ == "__main__":
    main()
