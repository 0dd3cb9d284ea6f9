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
from collections.abc import Iterator, Mapping
from pathlib import Path

import run_lab_seeds

from heedful.labs import Claim, Figure, LabReport, Paragraph, Table, labs, run_lab
from heedful.reports.charts.export_svg import standalone
from heedful.reports.lab_terminal import number, shown

FOLDER = Path(__file__).parent / "labs"
LIST = """# Labs

What the field teaches, run on two cores, each lab checking its own claims: `heedful lab run NAME` prints
tables, `--out` writes a page with figures, and the exit code is 1 when a claim fails. In Python:
`heedful.run_lab(name)`.

A page shows the full run of one seed. Another `--seed` changes the digits, and now and then a conclusion,
since claims rest on what was drawn. How often is counted with `--fast`, a smaller run, under seeds that are
drawn from each lab's code, so that nobody chose them (`make lab-seeds`; in the background
`nohup make lab-seeds SEEDS=3 &`, which may be stopped and goes on where it was).
{seeds}

The rows are in [seeds.csv](seeds.csv). Its column `source` is the code that ran: the first 12 digits of the
SHA-256 of the lab's module and of every module of heedful that this imports, directly or not. In the table
below, `code` is the `source` of the labs when this page was written; failures are counted for that code,
and beside it for all rows of the file, older code included. `python docs/run_lab_seeds.py --count` counts
for the code as it is now.

Some claims were weakened after they had failed under other seeds, and say less than they once did:

- `lime-theorem`, bandwidth: "the sign of more than one word in a hundred hangs on the bandwidth" became
  "there are such words, and none where f is linear". The share depends on the texts that are drawn.
- `lime-theorem`, deletion: "farther by more than 10 % of the limit" became "farther". The distance depends
  on the texts that are drawn.
- `lime-theorem`, scatter of LIME's runs: "the squared distance of the mean of five runs is less than five
  times what their scatter explains" became "the joint 99.9 % intervals of all words, from ten runs, hold
  the limit". Five runs estimate their own scatter too badly for a fixed factor.
- `not-not-explanation --fast`: that attention of zoo:one-layer, and weights that the network learns, guide
  better than uniform weights is claimed by the full run only. The difference is two or three points of F1,
  which the few networks of a fast run cannot tell from none.
- `superposition`: the shapes are claimed of the best of four restarts by loss, as in the paper, no longer
  of every start; in return they are claimed of every feature, no longer of the mean.

| lab | minutes | what it shows | after | claims that failed | all rows | code |
|---|---|---|---|---|---|---|
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


def told(lab: str, given: Paragraph | Table | Figure | Claim) -> str:
    """Claims stand at the top."""
    if isinstance(given, Paragraph):
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
    return LabReport.load(given) if (Path(given) / "manifest.json").is_file() else run_lab(given)


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
    page_of(name).write_text(page(report), encoding="utf-8")
    print(f"{name}: {report.answer} {report.settings['seconds']:.0f} s")


def page_of(name: str) -> Path:
    return FOLDER / f"{name}.md"


def listed(now: Mapping[str, str]) -> str:
    """The list of all labs, and how the claims of this code, by lab, fared under other seeds."""
    rows = run_lab_seeds.read()
    lines = []
    for each in labs().values():
        of_lab = [row for row in rows if row.lab == each.name]
        cells = [
            f"[`{each.name}`]({each.name}.md)" if page_of(each.name).is_file() else f"`{each.name}`",
            f"{each.minutes:g}",
            escaped(each.title),
            escaped(each.cite),
            failures(run_lab_seeds.current(of_lab, now)),
            failures(of_lab),
            f"`{now[each.name]}`",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return LIST.format(seeds=wrapped(run_lab_seeds.told(rows, now))) + "\n".join(lines) + "\n"


def failures(rows: list[run_lab_seeds.Row]) -> str:
    count = run_lab_seeds.count_of(rows)
    seeds = "1 seed" if count.runs == 1 else f"{count.runs} seeds"
    return f"{count.failed} of {count.claims}, {seeds}" if count.runs else "not run"


def main() -> None:
    given = sys.argv[1:]
    for name in [] if given == ["--list"] else given or labs():
        write(name)
    (FOLDER / "index.md").write_text(listed(run_lab_seeds.sources()), encoding="utf-8")


if __name__ == "__main__":
    main()
