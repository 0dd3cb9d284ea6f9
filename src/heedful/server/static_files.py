"""The page's own files, read into memory once: place -> (kind, content). No path of a client opens anything.

Styles and scripts of the report are put together here as they are.
"""

from __future__ import annotations

from importlib.resources import files

from heedful.reports.html_frame import PATCH_SCRIPTS, SCRIPTS, atlas_scripts, component

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
STYLES = ("page.css", "report.css", "features.css", "atlas.css")


def _shared_style() -> str:
    return "\n".join(map(component, STYLES))


def _shared_script() -> str:
    """What makes report parts better to use, as a module."""
    shared = "\n".join(map(component, SCRIPTS))
    return f"{shared}\nexport {{ reading, charts, keep }};\n"


def _atlas_script() -> str:
    """The atlas as a function of where it stands, what it shows and where its choices are kept."""
    return f"export const atlas = (root, data, address) => {{\n{atlas_scripts()}\n}};\n"


def _patches_script() -> str:
    """The heads of a vision transformer, in the same way."""
    scripts = "\n".join(map(component, PATCH_SCRIPTS))
    return f"export const drawn = (root, data) => {{\n{scripts}\npatches(root, data);\n}};\n"


def _all() -> dict[str, tuple[str, bytes]]:
    made = {"shared.css": _shared_style(), "shared.js": _shared_script(), "atlas.js": _atlas_script()}
    made["patches.js"] = _patches_script()
    results = {
        f"/static/{name}": (KINDS[name.rpartition(".")[2]], text.encode()) for name, text in made.items()
    }
    for file in files("heedful.server").joinpath("static").iterdir():
        ending = file.name.rpartition(".")[2]
        if ending in KINDS:
            place = "/" if file.name == "index.html" else f"/static/{file.name}"
            results[place] = (KINDS[ending], file.read_bytes())
    return results


FILES = _all()
