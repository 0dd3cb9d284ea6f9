"""How to get the same explanation again: the command line and the Python, written out from the settings.

A model that came in as a Python object has no name that a command line could use; then only the Python is
given, with a line that says what to put in its place.
"""

from __future__ import annotations

import shlex
from typing import Any

from heedful.types import Comparison

DEFAULTS: dict[str, Any] = {"draws": None, "unit": "word", "seed": 0, "budget": None, "long": "error"}


def _source(comparison: Comparison) -> str | None:
    """What `heedful.load` was given, when that was a name."""
    name = str(comparison.model.get("name", ""))
    source = comparison.settings.get("source") or (name if name.startswith("zoo:") else None)
    return source if isinstance(source, str) else None


def _text(comparison: Comparison) -> Any:
    return comparison.settings.get("text") or comparison.x.text


def _methods(comparison: Comparison) -> list[str]:
    return list(comparison)


def _target(comparison: Comparison) -> dict[str, Any]:
    """label (and contrast, position) or sequence (and contrast), as `heedful.explain(target=...)` takes
    them."""
    target = comparison.target
    if target.kind == "sequence":
        rather = {"contrast": target.contrast_label} if target.contrasted else {}
        return {"sequence": target.label, **rather}
    found: dict[str, Any] = {"label": target.label or target.index}
    if target.contrast is not None:
        found["contrast"] = target.contrast_label or target.contrast
    if target.position is not None:
        found["position"] = target.position
    if target.given:  # the text that was typed, where it is known
        found["given"] = (comparison.settings.get("target") or {}).get("given", list(target.given))
    return found


def _changed(comparison: Comparison) -> dict[str, Any]:
    return {
        name: comparison.settings[name]
        for name, default in DEFAULTS.items()
        if comparison.settings.get(name, default) != default
    }


def command(comparison: Comparison) -> str | None:
    """A shell command, or None when the model has no name, the text is a chat kept in a file, or what was
    already written is known by its ids alone."""
    source, text = _source(comparison), _text(comparison)
    if source is None or not (isinstance(text, str) or _is_pair(text)):
        return None
    if not isinstance(_target(comparison).get("given", ""), str):
        return None
    words = ["heedful", "explain", *_plain_text(text), "--model", source]
    words += ["--method", ",".join(_methods(comparison))]
    for name, value in _target(comparison).items():
        words += ["--target" if name == "label" else f"--{name}", str(value)]
    for name, value in _changed(comparison).items():
        words += [f"--{name}", str(value)]
    for name in sorted({key for params in _params(comparison).values() for key in params}):
        values = {str(params[name]) for params in _params(comparison).values() if name in params}
        words += [f"--{name}", values.pop()] if name == "operator" and len(values) == 1 else []
    words += [] if comparison.evidence else ["--no-evidence"]
    words += ["--features", str(_sae(comparison))] if _sae(comparison) else []
    return shlex.join(words)


def python(comparison: Comparison) -> str:
    """A Python snippet that runs as it stands when the model has a name."""
    source, text = _source(comparison), _text(comparison)
    load = (
        f"model = heedful.load({source!r})"
        if source
        else "model = heedful.load(...)  # your own model object"
    )
    text = tuple(text) if _is_pair(text) else text
    target = _target(comparison)
    spec = target["label"] if list(target) == ["label"] else target
    lines = ["import heedful", "", load, "cmp = heedful.explain(", "    model,", f"    {text!r},"]
    lines += [f"    methods={_methods(comparison)!r},", f"    target={spec!r},"]
    lines += [f"    {name}={value!r}," for name, value in _changed(comparison).items()]
    if _params(comparison):
        lines.append(f"    params={_params(comparison)!r},")
    lines += [f"    features=heedful.SAE.load({_sae(comparison)!r}),"] if _sae(comparison) else []
    lines += [f"    evidence={_metrics(comparison)!r},"] if comparison.evidence else []
    return "\n".join([*lines, ")", 'cmp.to_html("why.html")'])


def _sae(comparison: Comparison) -> str | None:
    """The dictionary whose features are on the page, where it came from a folder or the zoo."""
    named = comparison.settings.get("features")
    return named if comparison.inside.fired is not None and isinstance(named, str) else None


def _metrics(comparison: Comparison) -> list[str]:
    return list(dict.fromkeys(found.metric for found in comparison.evidence))


def _params(comparison: Comparison) -> dict[str, dict[str, Any]]:
    """The methods' parameters that the caller set."""
    given = comparison.settings.get("params") or {}
    return {method: dict(values) for method, values in given.items() if values and method in comparison}


def _is_pair(text: Any) -> bool:
    return isinstance(text, list | tuple) and len(text) == 2 and all(isinstance(part, str) for part in text)


def _plain_text(text: Any) -> list[str]:
    parts = [text] if isinstance(text, str) else [text[0], "--pair", text[1]]
    return ["--", *parts] if isinstance(text, str) and text.startswith("-") else parts
