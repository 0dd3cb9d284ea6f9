"""Runs labs in full and writes their docs pages: docs/labs/NAME.md, its figures, and the list of all labs.

    python docs/write_labs.py                 every lab, about an hour and a half on two cores
    python docs/write_labs.py dyck solu       these; the list is written anew
    python docs/write_labs.py out/dyck        what heedful lab run dyck --out out/dyck saved
    python docs/write_labs.py --list          none; only the list

What a page says is what the run said. `make labs` runs all.
"""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import run_lab_seeds

from heedful.core.document import plain
from heedful.labs import Claim, Figure, LabReport, NumberTable, Paragraph, labs, run_lab
from heedful.reports.charts.draw import svg
from heedful.reports.charts.export_svg import standalone
from heedful.reports.lab import number, shown

FOLDER = Path(__file__).parent / "labs"
LIST = """# Labs

Each lab repeats an experiment of a paper on two cores and checks its own claims. `heedful lab run NAME`
prints tables, and `--out` writes a report with figures. The exit code is 1 if a claim fails. In Python:
`heedful.run_lab(name)`.

The number after a claim is the measured value, usually with a 95 % interval in brackets. A value for
comparison follows after the semicolon.

Each docs page shows the full run of one seed. Another `--seed` changes the numbers, and sometimes a
claim fails. To count how often this happens, `make lab-seeds` runs the labs with other seeds and `--fast`
(a smaller run). The seeds are computed from each lab's code, so nobody chose them. To run it in the
background, use `nohup make lab-seeds SEEDS=3 &`. If it is interrupted, the same command resumes it.

{seeds}

[seeds.csv](seeds.csv) has all runs. Its column `source` identifies the code by the first 12 digits of a
SHA-256 hash over the lab's module and every heedful module it imports. In the table below, the column
*code* is this hash at the time when the page was written. The column *claims that failed* counts only the
runs of this code. The column *all runs* also counts runs of older code. The command
`python docs/run_lab_seeds.py --count` counts for the current code.

Some claims were weakened because a stronger version failed with other seeds:

- `lime-theorem`, bandwidth: the claim is only that the sign of some words depends on the bandwidth. It does
  not say how many words, because their share depends on the sampled texts.
- `lime-theorem`, deletion: the claim says "farther", but not how far, because the distance depends on the
  sampled texts.
- `lime-theorem`, runs of LIME: the claim is about simultaneous 99.9 % intervals from ten runs of LIME.
  Five runs are too few to estimate how much the runs differ.
- `not-not-explanation --fast`: only the full run claims that the guided network is better with attention
  (of zoo:one-layer or of the BiLSTM) or with weights that it learns than with uniform weights. The
  difference is two or three points of F1. This is too small to detect with the few networks of a fast run.
- `superposition`: the claims about shapes are about one of four restarts, the one with the lowest loss, as in
  the paper.

| lab | minutes | what it shows | papers | claims that failed | all runs | code |
|---|---|---|---|---|---|---|
"""


def page(report: LabReport) -> str:
    """A lab's page."""
    command = f"heedful lab run {report.lab} --seed {report.settings['seed']}"
    head = f"# {report.title}\n\n*Based on {escaped(report.cite)}.* {report.answer}\n"
    head += f"The numbers come from `{command}`.\n\n"
    claims = "\n".join(map(line, report.claims))
    body = "\n\n".join(part for given in report.parts if (part := told(report.lab, given)))
    return f"{head}{claims}\n\n{body}\n"


def line(claim: Claim) -> str:
    mark = "✓" if claim.holds else "✗"
    return wrapped(f"- {mark} {escaped(claim.sentence)} *{escaped(number(claim))}*", "  ")


def told(lab: str, given: Paragraph | NumberTable | Figure | Claim) -> str:
    """Claims stand at the top."""
    if isinstance(given, Paragraph):
        return wrapped(escaped(plain(given.text)))
    if isinstance(given, NumberTable):
        return "\n".join([f"**{escaped(given.title)}**", "", *rows(given)])
    if isinstance(given, Figure):
        alt = escaped(given.caption).replace("[", "(").replace("]", ")")
        return f"![{alt}]({lab}/{given.name}.svg)\n\n*{escaped(given.caption)}*"
    return ""


def rows(table: NumberTable) -> Iterator[str]:
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
    began = time.process_time()
    report = found(given)
    processor = time.process_time() - began  # next to nothing for a saved run
    if report.settings["fast"]:
        raise SystemExit(f"{given} is a fast run; pages are of full ones")
    name = report.lab
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for figure in report.figures:
        (folder / f"{figure.name}.svg").write_text(standalone(svg(figure.chart)), encoding="utf-8")
    page_of(name).write_text(page(report), encoding="utf-8")
    print(f"{name}: {report.answer} {report.settings['seconds']:.0f} s ({processor:.0f} s of the processor)")


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
