"""What a run folder holds, by the file that marks it, and how it is drawn: for the page and `heedful report`.

What only the page stores (attention, features, steers) is read by heedful.server.saved_results, which is
imported for these alone: the other kinds need neither the page's packages nor torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heedful.core.errors import HeedfulError
from heedful.server.run_view import RunView

KINDS = (  # kind, the mark, and the file that is dated and must be its own, too
    ("audit", "shards", "manifest.json"),
    ("trial", "trial.json", ""),
    ("lab", "lab.json", ""),
    ("steer", "steer.json", ""),
    ("attention", "atlas.json", "maps.safetensors"),
    ("feature", "feature.json", ""),
    ("explanation", "comparison.json", "manifest.json"),
)


STORED_BY_PAGE = ("steer", "attention", "feature")


BROKEN = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


@contextmanager
def friendly_errors(name: str) -> Iterator[None]:
    """What a file that was cut or written by hand leads to is one sentence."""
    try:
        yield
    except HeedfulError:
        raise
    except BROKEN as error:
        raise HeedfulError(f"{name} is damaged", type(error).__name__, "Make the run again") from error


def kind_of(folder: Path) -> str:
    """The first whose mark is there; an explanation tells itself why it is none."""
    return next((kind for kind, mark, _ in KINDS if (folder / mark).exists()), "explanation")


def view_run(kind: str, folder: Path) -> RunView:
    if kind not in STORED_BY_PAGE:
        return _VIEWS[kind](folder)
    try:
        from heedful.server import saved_results
    except ImportError as error:
        raise HeedfulError(
            f"what the page stored ({kind}) needs packages that are not installed",
            str(error),
            "Type: pip install 'heedful[serve]'",
        ) from None
    return saved_results.VIEWS[kind](folder)


def _explanation(path: Path) -> RunView:
    from heedful.comparisons.result import Comparison
    from heedful.reports import html

    result = Comparison.load(path)
    settings = result.settings
    text = _text_fields(settings.get("text") or (str(result.x.raw) if result.attributions else ""))
    ask = None
    if text is not None and isinstance(settings.get("source"), str):
        target = settings.get("target") or {}
        ask = {
            "model": settings["source"],
            **text,
            "methods": [m for m in result if m != "random"],
            "target": target.get("label"),
            "contrast": target.get("contrast"),
            "unit": settings.get("unit", "word"),
            "seed": settings.get("seed", 0),
        }
    return RunView(lambda: html.body(result.document(), 2), result.page, result.to_dict, ask)


def _text_fields(text: Any) -> dict[str, Any] | None:
    """A text, a pair or a chat as the page asks for it."""
    if isinstance(text, str):
        return {"text": text}
    if isinstance(text, list | tuple) and len(text) == 2 and all(isinstance(part, str) for part in text):
        return {"text": text[0], "pair": text[1]}
    if isinstance(text, list | tuple) and text and all(isinstance(turn, dict) for turn in text):
        return {"text": "", "turns": [{name: turn[name] for name in ("role", "content")} for turn in text]}
    return None


def _audit(path: Path) -> RunView:
    from heedful.audits.result import load
    from heedful.reports import audit_page

    result = load(path)
    return RunView(
        lambda: audit_page.body(result, 2),
        lambda: audit_page.page(result),
        lambda: {"run": str(path), **result.to_dict()},
    )


def _trial(path: Path) -> RunView:
    from heedful.reports import trial_page
    from heedful.trials.result import Trial

    result = Trial.load(path)
    return RunView(lambda: trial_page.body(result, 2), lambda: trial_page.page(result), result.to_dict)


def _lab(path: Path) -> RunView:
    from heedful.core.lab_report import LabReport
    from heedful.reports import lab_page

    result = LabReport.load(path)
    return RunView(lambda: lab_page.body(result, 2), lambda: lab_page.page(result), result.to_dict)


_VIEWS: dict[str, Callable[[Path], RunView]] = {
    "explanation": _explanation,
    "audit": _audit,
    "trial": _trial,
    "lab": _lab,
}
