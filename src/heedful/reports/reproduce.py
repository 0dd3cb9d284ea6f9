"""How to get the same explanation again: the command line and the Python, written out from the settings.

What was typed is kept as it was typed. An explanation made in Python or on the page gets the command that
makes the same, where there is one: a model that came in as a Python object has no name, and the command line
takes neither token ids nor metrics by name. Then only the Python is given.
"""

from __future__ import annotations

from typing import Any

from heedful.comparisons.result import Comparison
from heedful.comparisons.single_text import METRICS
from heedful.core.command_line import command_line, param_text, stored_line
from heedful.modalities.image import ImageInput
from heedful.modalities.text import TextInput

UNNAMED = "picture"  # the source of a picture that came as an array or as bytes
DEFAULTS: dict[str, Any] = {"draws": None, "unit": "word", "seed": 0, "budget": None, "long": "error"}


def command(comparison: Comparison) -> str | None:
    """A line for a shell, or None where there is none that gives the same."""
    if typed := stored_line(comparison.settings.get("command")):
        return typed
    source, text, target = _source(comparison), _text(comparison), _target(comparison)
    params, metrics = _spelled(comparison), _metrics(comparison)
    if (
        source is None
        or params is None
        or comparison.settings.get("objects")
        or not (isinstance(text, str) or _is_pair(text))
        or not all(isinstance(value, str) for name, value in target.items() if name in _texts(comparison))
        or metrics not in ([], list(METRICS))
    ):
        return None
    options: list[tuple[str, Any]] = [("--model", source)]
    options += [] if isinstance(text, str) else [("--pair", text[1])]
    methods = _methods(comparison)
    if methods is not None:
        options.append(("--method", methods if isinstance(methods, str) else ",".join(methods)))
    options += [("--target" if name == "label" else f"--{name}", value) for name, value in target.items()]
    options += [(f"--{name}", value) for name, value in _changed(comparison).items()]
    options += [("--param", params)]
    options += [] if metrics else [("--no-evidence", True)]
    options += [("--features", _sae(comparison))] if _sae(comparison) else []
    options += [("--allow-pickle", True)] if comparison.settings.get("allow_pickle") else []
    return command_line("explain", options, text if isinstance(text, str) else text[0])


def python(comparison: Comparison) -> str:
    """A Python snippet that runs as it stands when the model has a name."""
    source, text, target = _source(comparison), _text(comparison), _target(comparison)
    pickle = ", allow_pickle=True" if comparison.settings.get("allow_pickle") else ""
    load = (
        f"model = heedful.load({source!r}{pickle})"
        if source
        else "model = heedful.load(...)  # your own model object"
    )
    text = tuple(text) if _is_pair(text) else text
    objects = comparison.settings.get("objects") or ()
    shown = "...,  # your own encoded text" if "text" in objects else f"{text!r},"
    if text is None:
        parts = " with its regions" if getattr(comparison.x, "regions", ()) else ""
        shown = f"...,  # your {comparison.x.noun}{parts}"
    lines = ["import heedful", "", load, "cmp = heedful.explain(", "    model,", f"    {shown}"]
    if (methods := _methods(comparison)) is not None:
        lines.append(f"    methods={methods!r},")
    if "target" in objects:
        lines.append("    target=...,  # your own target")
    elif target:
        lines.append(f"    target={(target['label'] if list(target) == ['label'] else target)!r},")
    lines += [f"    {name}={value!r}," for name, value in _changed(comparison).items()]
    if _params(comparison):
        lines.append(f"    params={_params(comparison)!r},")
    if _sae(comparison):
        lines.append(f"    features=heedful.SAE.load({_sae(comparison)!r}{pickle}),")
    if (metrics := _metrics(comparison)) != list(METRICS):
        lines.append(f"    evidence={metrics or False!r},")
    return "\n".join([*lines, ")", 'cmp.to_html("why.html")'])


# --- what was asked for -----------------------------------------------------------------------------------


def _source(comparison: Comparison) -> str | None:
    """What `heedful.load` was given, when that was a name."""
    name = str(comparison.model.get("name", ""))
    source = comparison.settings.get("source") or (name if name.startswith("zoo:") else None)
    return source if isinstance(source, str) else None


def _text(comparison: Comparison) -> Any:
    """What was given; of a picture its path, or None where it came without one."""
    if isinstance(comparison.x, ImageInput):
        whole = comparison.x.source != UNNAMED and not comparison.x.regions
        return comparison.x.source if whole else None
    if not isinstance(comparison.x, TextInput):
        return None
    return comparison.settings.get("text") or comparison.x.raw


def _methods(comparison: Comparison) -> list[str] | str | None:
    """Names, "all", or None for the usual ones. Those that had to give way to a budget or were interrupted
    are named, too: what they took is part of what the others got."""
    settings = comparison.settings
    if "methods" not in settings:  # of an older version
        return list(comparison)
    if settings["methods"] is None or isinstance(settings["methods"], str):
        return settings["methods"]
    stopped = settings.get("budget") is not None or "interrupted" in settings
    there = {*comparison, *(comparison.skipped if stopped else ())}
    return [name for name in settings["methods"] if name in there] or list(comparison)


def _target(comparison: Comparison) -> dict[str, Any]:
    """label, contrast, position, given or sequence, as they were given; {}: the prediction."""
    if "target" in comparison.settings:
        given = comparison.settings["target"]
        return dict(given) if isinstance(given, dict) else {} if given is None else {"label": given}
    target = comparison.target  # of an older version
    if target.kind == "sequence":
        return {"sequence": target.label} | ({"contrast": target.contrast_label} if target.contrasted else {})
    results: dict[str, Any] = {"label": target.label or target.index}
    if target.contrast is not None:
        results["contrast"] = target.contrast_label or target.contrast
    if target.position is not None:
        results["position"] = target.position
    return results | ({"given": list(target.given)} if target.given else {})


def _texts(comparison: Comparison) -> set[str]:
    """Parts of a target that a command can only spell: a number would be read as the text of a token."""
    written = {"sequence", "given"}
    return written | ({"label", "contrast"} if comparison.target.kind in ("token", "sequence") else set())


def _changed(comparison: Comparison) -> dict[str, Any]:
    usual = DEFAULTS | {"unit": comparison.x.default_unit}
    return {
        name: comparison.settings[name]
        for name, default in usual.items()
        if comparison.settings.get(name, default) != default
    }


def _sae(comparison: Comparison) -> str | None:
    """The dictionary whose features are on the page, where it came from a folder or the zoo."""
    named = comparison.settings.get("features")
    return named if comparison.internals.features is not None and isinstance(named, str) else None


def _metrics(comparison: Comparison) -> list[str]:
    """By which metrics the methods were to be weighed."""
    if "evidence" in comparison.settings:
        return list(comparison.settings["evidence"])
    return list(dict.fromkeys(each.metric for each in comparison.evidence))


def _params(comparison: Comparison) -> dict[str, dict[str, Any]]:
    """The methods' parameters that the caller set."""
    given = comparison.settings.get("params") or {}
    named = _methods(comparison)
    return {
        method: dict(values)
        for method, values in given.items()
        if values and (not isinstance(named, list) or method in named)
    }


def _spelled(comparison: Comparison) -> list[str] | None:
    """METHOD.NAME=VALUE, or None where a value cannot be typed."""
    lines = []
    for method, values in _params(comparison).items():
        for name, value in values.items():
            if (text := param_text(value)) is None:
                return None
            lines.append(f"{method}.{name}={text}")
    return lines


def _is_pair(text: Any) -> bool:
    return isinstance(text, list | tuple) and len(text) == 2 and all(isinstance(part, str) for part in text)
