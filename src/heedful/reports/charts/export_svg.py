"""An image of a page as a file of its own: the page's rules for plots, with its light colours written in.

CSS variables and light-dark() are known to browsers and to few other programs, so each is replaced by its
colour; the paper is painted, so the image can be read on any page.
"""

from __future__ import annotations

import re

from heedful.reports.html_frame import component

COLOUR = re.compile(r"--([\w-]+):\s*light-dark\((#\w+),")
RULE = re.compile(r"^\.heedful (\.plot[^{]*)\{([^}]*)\}", re.MULTILINE)
BOX = re.compile(r'viewBox="([\d.-]+) ([\d.-]+) ([\d.]+) ([\d.]+)"')
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Helvetica Neue', sans-serif"


def standalone(svg: str) -> str:
    """The text of an .svg file, from an image of heedful.reports.charts.forest_scatter or
    heedful.reports.charts.panels."""
    box = BOX.search(svg)
    if not svg.startswith("<svg") or box is None:
        raise ValueError("an image is one <svg> element with a viewBox")
    left, top, width, height = box.groups()
    head, rest = svg.split(">", 1)
    head = head.replace(
        "<svg", f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"', 1
    )
    paper = f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="{_colours()["paper"]}"/>'
    return f"{head}><style>{_style()}</style>{paper}{rest}\n"


def _style() -> str:
    sheet = component("report.css").replace("} .heedful", "}\n.heedful")  # two rules on a line
    known = _colours()
    rules = "".join(f"{where.strip()}{{{what.strip()}}}" for where, what in RULE.findall(sheet))
    rules = re.sub(r"var\(--([\w-]+)\)", lambda name: known[name[1]], rules)
    return f".plot{{font-family:{FONT};font-size:12px}}{rules}"


def _colours() -> dict[str, str]:
    return dict(COLOUR.findall(component("report.css")))
