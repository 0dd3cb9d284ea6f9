"""Run the notebooks in docs/notebooks and keep their outputs in them, to be read where nothing runs.

    python docs/run_notebooks.py            every notebook
    python docs/run_notebooks.py NAME ...   some

A cell is run as Jupyter would: what it prints is a stream, its last expression is displayed with every form
it has (text, HTML, PNG). No kernel is needed: cells are plain Python, one namespace per notebook.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "notebooks"


def execute(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with fresh outputs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell = {**cell, "execution_count": count, "outputs": run("".join(cell["source"]), names, count)}
        cells.append(cell)
    return {**notebook, "cells": cells}


def run(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said, value = io.StringIO(), None
    with contextlib.redirect_stdout(said):
        exec(compile(tree, "<cell>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if said.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines(said.getvalue())})
    if value is not None:
        data: dict[str, Any] = {"text/plain": lines(repr(value))}
        if hasattr(value, "_repr_html_") and (html := value._repr_html_()) is not None:
            data["text/html"] = lines(html)
        if hasattr(value, "_repr_png_"):
            data["image/png"] = base64.b64encode(value._repr_png_()).decode() + "\n"
        outputs.append(
            {"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}}
        )
    return outputs


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def main() -> None:
    chosen = [HERE / f"{name}.ipynb" for name in sys.argv[1:]] or sorted(HERE.glob("*.ipynb"))
    warnings.simplefilter("ignore")
    for path in chosen:
        notebook = read(path)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            done = execute(notebook)
        path.write_text(json.dumps(done, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        print(path.name, f"{path.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
