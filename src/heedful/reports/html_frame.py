"""What is around the body of a page or a notebook cell: styles, scripts and the Content-Security-Policy.

Nothing is fetched: styles and script are in the page, and the policy names them by hash and forbids all else,
so text of the user that looks like a script is shown and cannot run. Everything can be read with scripts off.
The embedded JSON escapes <, > and &.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from heedful._version import __version__
from heedful.io.json_codec import json_text
from heedful.reports.html_parts import esc

STYLES = ("report.css", "features.css")
SCRIPTS = ("reading.js", "saving.js", "charts.js")
DATA = 'JSON.parse(document.getElementById("heedful-data").textContent)'
ATLAS_SCRIPTS = ("atlas_data.js", "atlas_canvas.js", "atlas_links.js", "atlas_matrix.js", "atlas.js")
PATCH_SCRIPTS = ("atlas_data.js", "atlas_patches.js")
ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


def component(name: str) -> str:
    return files("heedful.reports").joinpath("components", name).read_text(encoding="utf-8")


def script_data(numbers: Any) -> str:
    """JSON that may be in a script element."""
    return json_text(numbers, ascii_only=True, compact=True).translate(ESCAPES)


def island_script(name: str) -> str:
    """What starts a component on a page of its own."""
    if name == "patches":
        return f"{''.join(map(component, PATCH_SCRIPTS))}\npatches(root, {DATA});"
    if name == "atlas":
        return '(() => {\n"use strict";\n' + component("atlas_own.js") + atlas_scripts() + "\n})();"
    return f"{name}(root, {DATA});"


def atlas_scripts() -> str:
    """What draws an atlas, given `root`, `data` and `address`."""
    return "\n".join(map(component, ATLAS_SCRIPTS))


def style(islands: Sequence[str] = ()) -> str:
    """All styles of a body."""
    names = [*STYLES, *(["atlas.css"] if {"atlas", "patches"} & {*islands} else [])]
    return "".join(map(component, names))


def frame(title: str, content: str, islands: Sequence[str] = (), data: Any = None) -> str:
    """A self-contained HTML5 document; `content` is HTML, `title` is not."""
    styles = component("page.css") + style(islands)
    script = scripts('document.querySelector("main.heedful")', "\n".join(map(island_script, islands)))
    policy = (
        f"default-src 'none'; style-src '{_hash(styles)}'; script-src '{_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    numbers = (
        f'\n<script type="application/json" id="heedful-data">{script_data(data)}</script>' if islands else ""
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="heedful {__version__}">
<title>{esc(title)}</title>
<style>{styles}</style>
</head>
<body>
<main class="heedful">
{content}
</main>{numbers}
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


def cell(content: str, name: str, islands: Sequence[str] = ()) -> str:
    """A body for a notebook cell, inside an element with the id `name`, which styles and script keep to."""
    styles = style(islands).replace(".heedful", f"#{name}")
    extra = f"#{name} {{ padding: 1.25em 1.5em; font-size: 14px; border-radius: 8px; }}"
    script = scripts(f'document.getElementById("{name}")')
    return f'<div id="{name}"><style>{styles}{extra}</style>\n{content}\n<script>{script}</script></div>'


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
