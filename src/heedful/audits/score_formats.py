"""Scores made elsewhere (shap, captum, inseq, plain lists), read as they come.

    read_given          whatever came for one text -> Given

Where they belong in the text is found later: heedful.audits.score_alignment.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.unpack import unpacked

Cut = tuple[int, int]

TAKEN = (
    "Give numbers, (word, score) or (start, end, score) in a list, a numpy array or torch tensor of one"
    " number per token, one text of a shap.Explanation, or what inseq saved (its path, or the mapping in it)"
)
MAX_BYTES = 1 << 26  # bytes of a file, and of an array in it: an odd one must not fill the memory


@dataclass(frozen=True)
class Given:
    """Scores of one method for one text, as they came from elsewhere."""

    scores: tuple[tuple[float, ...], ...]  # one row per piece, one column per output (usually one)
    pieces: tuple[str, ...] = ()  # the words or tokens the scores belong to, where they came along
    spans: tuple[Cut, ...] = ()  # characters of the text, where they came along
    outputs: tuple[str, ...] = ()  # names of the columns, where they came along
    target: Any = None  # what was explained, where it came along (a label, an index, ...)
    fitted_by: tuple[str, ...] | None = (
        None  # removal operators they were made with; () nothing; None unknown
    )


def read_given(
    value: Any, fitted_by: str | Sequence[str] | None = None, target: Any = None, *, maps: bool = False
) -> Given:
    """Scores for one input. `fitted_by` names removal operators ("mask", "a,b"), "nothing" or "unknown".

    maps   the input is no line of words: scores are a map (rows, columns), or one number per unit
    """
    given = value if isinstance(value, Given) else _read_map(value) if maps else _read(value)
    return replace(
        given,
        fitted_by=given.fitted_by if fitted_by is None else fitting_operators(fitted_by),
        target=given.target if target is None else target,
    )


def _read_map(value: Any) -> Given:
    table = np.asarray(value.detach().cpu() if _is_tensor(value) else value)
    while table.ndim > 2 and len(table) == 1:
        table = table[0]
    if table.ndim not in (1, 2) or table.dtype.kind not in "fiu":
        raise HeedfulError(
            f"an array of {table.dtype} {table.shape} is no map of scores",
            fix="Give (rows, columns); sum over colours first",
        )
    return made_given(table)


def _read(value: Any) -> Given:
    if isinstance(value, list | tuple) and len(value) == 1 and _is_tensor(value[0]):
        value = value[0]  # captum answers a tuple of inputs with a tuple
    if _is_tensor(value):
        return made_given(_tensor(value))
    if isinstance(value, np.ndarray):
        return made_given(_array(value))
    if isinstance(value, list | tuple):
        return listed_scores(value)
    if isinstance(value, str | Path):
        return _inseq(_json_file(Path(value)))
    if isinstance(value, Mapping):
        return _inseq(value)
    if hasattr(value, "values") and hasattr(value, "data"):
        return _shap(value)
    raise HeedfulError(f"scores cannot be a {type(value).__name__}", fix=TAKEN)


def made_given(
    values: Any, pieces: Iterable[str] = (), spans: Iterable[Cut] = (), outputs: Iterable[str] = ()
) -> Given:
    table = np.asarray(values, dtype=np.float64)
    table = table[:, None] if table.ndim == 1 else table
    given = Given(tuple(map(tuple, table.tolist())), tuple(pieces), tuple(spans), tuple(outputs))
    if not table.size:
        raise HeedfulError("there are no scores", fix=TAKEN)
    if not np.isfinite(table).all():
        row = int(np.argwhere(~np.isfinite(table))[0, 0])
        raise HeedfulError(f"score {row} (from 0) is not a finite number", fix="Leave this text out")
    for name, beside in (("tokens", given.pieces), ("spans", given.spans)):
        if beside and len(beside) != len(table):
            raise HeedfulError(
                f"there are {len(table)} scores for {len(beside)} {name}", fix="Give one for each"
            )
    return given


def fitting_operators(given: Any, known: Collection[str] = ()) -> tuple[str, ...] | None:
    """() for "nothing", None for "unknown"; a name that is not `known` is told: it may be misspelt."""
    names = given.split(",") if isinstance(given, str) else given
    if names is None:
        return None
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise HeedfulError(f"fitted_by cannot be {given!r:.60}", fix='Give names, "nothing" or "unknown"')
    names = tuple(name.strip() for name in names)
    alone = {("nothing",): (), ("unknown",): None}
    if names in alone:
        return alone[names]
    if not all(names) or {"nothing", "unknown"} & set(names):
        raise HeedfulError(
            f"fitted_by cannot be {given!r:.60}", fix='Give names, or only "nothing" or "unknown"'
        )
    if strange := [name for name in names if known and name not in known]:
        raise HeedfulError(
            f"fitted_by cannot be {strange[0]!r:.60}",
            "no removal operator here has this name",
            f'Known: {", ".join(known)}; "nothing" if it was none of these, "unknown" if you do not know',
        )
    return names


def _is_tensor(value: Any) -> bool:
    return any(kind.__module__.split(".")[0] == "torch" for kind in type(value).__mro__)


def _tensor(value: Any) -> Floats:
    """(T,), (1, T), or with an embedding at the end, over which it is summed."""
    if not hasattr(value, "detach") or value.is_complex() or str(value.dtype) == "torch.bool":
        raise HeedfulError("this torch value contains no real numbers", fix=TAKEN)
    table = value.detach().cpu().double().numpy()
    table = table[0] if table.ndim > 1 and len(table) == 1 else table
    table = table.sum(-1) if table.ndim == 2 else table
    if table.ndim != 1:
        raise HeedfulError(f"a tensor of shape {tuple(value.shape)} does not contain one text", fix=TAKEN)
    return np.asarray(table, dtype=np.float64)


def _array(value: Any) -> Any:
    table = value[0] if value.ndim == 2 and len(value) == 1 else value
    if table.dtype.kind not in "fiu":
        raise HeedfulError(f"an array of {table.dtype} contains no scores", fix=TAKEN)
    if table.ndim != 1:
        raise HeedfulError(
            f"an array of shape {value.shape} is not one number per token",
            "its columns may be outputs or an embedding",
            "Choose an output (scores[:, i]) or sum the embedding (scores.sum(-1))",
        )
    return table


def _kind(item: Any) -> str:
    if isinstance(item, Real):
        return "number"
    if not isinstance(item, list | tuple):
        return ""
    if len(item) == 2 and isinstance(item[0], str):
        return "word"
    return "span" if len(item) == 3 and all(map(is_whole, item[:2])) else ""


def is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def listed_scores(items: Sequence[Any]) -> Given:
    if len(items) == 1 and isinstance(items[0], list | tuple) and not _kind(items[0]):
        items = items[0]
    kinds = {_kind(item) for item in items}
    if len(kinds) > 1 or "" in kinds:
        odd = next(item for item in items if _kind(item) in ("", *(kinds - {_kind(items[0])})))
        raise HeedfulError(f"{odd!r:.60} does not fit in a list of scores", fix=TAKEN)
    if kinds <= {"number"}:
        return made_given([real_number(item) for item in items])
    scores = [real_number(item[-1]) for item in items]
    if kinds == {"word"}:
        return made_given(scores, [item[0] for item in items])
    return made_given(scores, spans=[(int(start), int(end)) for start, end, _ in items])


def real_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise HeedfulError(f"a score cannot be {value!r:.60}", "it must be a number")
    try:
        return float(value)
    except OverflowError:
        raise HeedfulError("a score is too large", "it must be a finite number") from None


def _shap(value: Any) -> Given:
    """One text, or a list of one: then the tokens come in a list of one, too."""
    named = [_tokens(names) for names in (value.data, getattr(value, "feature_names", None))]
    values, several = value.values, max(texts for texts, _ in named)
    if several or np.ndim(values) == 3:
        if len(values) != 1:
            raise HeedfulError(
                f"this Explanation contains {len(values)} texts", fix="Give one: explanation[0]"
            )
        values = values[0]
    table = np.asarray(values)
    if table.ndim not in (1, 2) or table.dtype.kind not in "fiu":
        raise HeedfulError(
            f"this Explanation contains no scores of one text: {table.dtype} {table.shape}", fix=TAKEN
        )
    outputs: Any = getattr(value, "output_names", None)
    outputs = [outputs] if isinstance(outputs, str) else list(outputs) if np.ndim(outputs) == 1 else []
    width = table.shape[1] if table.ndim == 2 else 1
    fits = len(outputs) == width and all(isinstance(name, str) for name in outputs)
    fits = fits and outputs != [f"Output {i}" for i in range(width)]  # shap calls them so if nobody else did
    return made_given(table, named[0][1] or named[1][1], outputs=map(str, outputs) if fits else ())


def _tokens(names: Any) -> tuple[int, list[str]]:
    """(how many lists, 0 if it is not a list of lists; the strings of the first)"""
    items = list(names) if isinstance(names, list | tuple) or np.ndim(names) else []
    lists = bool(items) and all(isinstance(item, list | tuple | np.ndarray) for item in items)
    strings = list(items[0]) if lists else items
    return len(items) if lists else 0, [str(s) for s in strings] if all(
        isinstance(s, str) for s in strings
    ) else []


def _json_file(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise HeedfulError(
            f"cannot read {str(path)!r:.200}", getattr(error, "strerror", "") or "", TAKEN
        ) from None
    if len(content) > MAX_BYTES:
        raise HeedfulError(f"{path.name} is too large", f"it has more than {MAX_BYTES:,} bytes", TAKEN)
    if content.startswith(b"\x1f\x8b"):
        raise HeedfulError(f"{path.name} is compressed", fix="Save it with compress=False")
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise HeedfulError(f"{path.name} is not JSON", str(error), TAKEN) from None
    if not isinstance(data, Mapping):
        raise HeedfulError(f"{path.name} is not what inseq saves", "it contains no object", TAKEN)
    return data


def _inseq(data: Mapping[str, Any]) -> Given:
    """`FeatureAttributionOutput.save`: the tokens of the prompt, a column for each token that was written.

    What lies behind the first two dimensions (embedding, layers, heads) is summed. Rows after the prompt
    belong to what the model wrote itself, which is no part of the text.
    """
    from safetensors import SafetensorError

    try:
        every = _fields(data)["sequence_attributions"]
        if len(every) != 1:
            raise HeedfulError(f"inseq saved {len(every)} texts", fix="Save each alone: split_sequences=True")
        one = _fields(every[0])
        prompt, written = (
            [str(_fields(token)["token"]) for token in one[key]] for key in ("source", "target")
        )
        packed = one.get("source_attributions")
        table = _unpacked(one["target_attributions"] if packed is None else packed)[: len(prompt)]
        table = table.reshape(*table.shape[:2], -1).sum(-1) if table.ndim > 2 else table
        steps = written[one["attr_pos_start"] : one["attr_pos_end"]]
        width = table.shape[1]
    except (LookupError, TypeError, ValueError, AttributeError, SafetensorError) as error:
        raise HeedfulError("this is not what inseq saves", f"{type(error).__name__} {error}", TAKEN) from None
    return made_given(table, prompt, outputs=steps if len(steps) == width else ())


def _fields(data: Any) -> Mapping[str, Any]:
    """inseq writes an object as {"__instance_type__", "attributes"}, or (primitives) as its attributes."""
    results = data["attributes"] if "__instance_type__" in data else data
    if not isinstance(results, Mapping):
        raise TypeError("an object without attributes")
    return results


def _unpacked(packed: Any) -> Floats:
    """Base64 of safetensors (inseq 0.6 and later), or an array with dtype and shape (earlier)."""
    from safetensors.numpy import load

    if isinstance(packed, str):
        try:
            return load(b64decode(packed, validate=True))["attribution"].astype(np.float64)
        except KeyError as error:
            fix = "Save it with scores_precision='float32'"
            raise HeedfulError(f"scores saved by inseq as {error} cannot be read", fix=fix) from None
    content, shape, dtype = packed["__ndarray__"], packed["shape"], np.dtype(packed["dtype"])
    if dtype.kind not in "fiu":
        raise TypeError(f"scores of {dtype}")
    if isinstance(content, str):
        head, _, body = content.partition(":")
        content = b64decode(body, validate=True)
        size = prod(shape) * dtype.itemsize
        if size > MAX_BYTES:
            raise ValueError(f"an array of {size:,} bytes")
        if head == "b64.gz":
            content = unpacked(content, size, zlib.MAX_WBITS | 16)
        content = np.frombuffer(content, dtype)
    return np.asarray(content, dtype=np.float64).reshape(shape)
