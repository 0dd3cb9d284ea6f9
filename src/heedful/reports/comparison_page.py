"""One HTML file for a comparison, and the same body for notebooks.

Nothing is fetched: styles and script stand in the page, and the Content-Security-Policy names them by hash
and forbids all else, so text of the user that looks like a script is shown and cannot run. Readable with
scripts off. The embedded JSON escapes <, > and &.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from importlib.resources import files
from typing import Any

from heedful._version import __version__
from heedful.comparisons.result import Comparison
from heedful.io.json_codec import json_text
from heedful.reports import comparison_sections, html_parts, internals_sections
from heedful.reports.agreement_section import agreement
from heedful.reports.comparison_summary import predictions
from heedful.reports.inline_style import inline

SCRIPTS = ("reading.js", "saving.js", "charts.js")
DATA = 'JSON.parse(document.getElementById("heedful-data").textContent)'
ANCHOR = re.compile(r'(?<![-\w])(id|href)="(#?)([\w-]+)"')
ESCAPES = {
    ord("<"): "\\u003c",
    ord(">"): "\\u003e",
    ord("&"): "\\u0026",
}


def script_data(numbers: Any) -> str:
    """JSON that may stand in a script element."""
    return json_text(numbers, ascii_only=True, compact=True).translate(ESCAPES)


def component(name: str) -> str:
    return files("heedful.reports").joinpath("components", name).read_text(encoding="utf-8")


def body(comparison: Comparison, size: int) -> str:
    """Every section; `size` is the heading level of the prediction (1 on a page, 3 in a notebook)."""
    parts = [comparison_sections.answer(comparison, size)]
    if comparison.attributions:
        results = (internals_sections.what_if, internals_sections.attention, internals_sections.features)
        drawn = (
            comparison_sections.methods,
            comparison_sections.numbers,
            comparison_sections.written,
            weighed,
            *results,
            agreement,
            comparison_sections.cost,
        )
        parts += [draw(comparison, size + 1) for draw in drawn]
    parts.append(comparison_sections.remarks(comparison, size + 1))
    if comparison.attributions:
        parts.append(comparison_sections.made(comparison, size + 1))
    return "\n".join(text for text in parts if text)


def weighed(comparison: Comparison, size: int) -> str:
    return comparison_sections.evidence(comparison, size, internals_sections.deletion(comparison))


def page(comparison: Comparison) -> str:
    """A self-contained HTML5 document."""
    data = script_data(_numbers(comparison))
    ranked = predictions(comparison)
    title = f"{ranked[0][0]} {ranked[0][1]}: why?" if ranked else "Explanation"
    return document(title, body(comparison, 1), f"saving(root, {DATA});", data)


def document(title: str, content: str, script: str = "", data: str = "", style: str = "") -> str:
    """The frame of a page; `content` is HTML, `title` is not. `script` is run after the house scripts, with
    the page's `root`; `style` is added to the house style."""
    style = component("page.css") + component("report.css") + style
    script = scripts('document.querySelector("main.heedful")', script)
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    text = f'\n<script type="application/json" id="heedful-data">{data}</script>' if data else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="heedful {__version__}">
<title>{html_parts.esc(title)}</title>
<style>{style}</style>
</head>
<body>
<main class="heedful">
{content}
</main>{text}
<script>{script}</script>
</body>
</html>
"""


def scripts(root: str, more: str = "") -> str:
    """What makes a page better to use, none of it needed to read; `root` is where it may reach, as an
    expression."""
    house = "\n".join(map(component, SCRIPTS))
    start = f"const root = {root};\nreading(root);\ncharts(root);\n{more}"
    return f'(() => {{\n"use strict";\n{house}\n{start}\n}})();'


def fragment(comparison: Comparison) -> str:
    return cell(body(comparison, 3))


def cell(content: str, style: str = "") -> str:
    """A body for a notebook cell: its own id, which styles and script keep to; readable where no script may
    run, and shaded where the styles are taken away."""
    name = f"heedful-{secrets.token_hex(6)}"
    style = (component("report.css") + style).replace(".heedful", f"#{name}")
    extra = f"#{name} {{ padding: 1.25em 1.5em; font-size: 14px; border-radius: 8px; }}"
    script = scripts(f'document.getElementById("{name}")')
    content = ANCHOR.sub(
        rf'\1="\2{name}-\3"', inline(content)
    )  # an id is one thing on a page of many outputs
    return f'<div id="{name}"><style>{style}{extra}</style>\n{content}\n<script>{script}</script></div>'


def _numbers(comparison: Comparison) -> dict[str, Any]:
    """The comparison as JSON without the word views, which the script works out again (half the size), and
    without the agreement, which stands in the page."""
    data = comparison.to_dict()
    del data["agreement"]
    for item in data["attributions"]:
        del item["words"]
    return data


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
