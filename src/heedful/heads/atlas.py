"""`heedful.attention`: all heads of a model on one text, as an atlas to look things up in.

    atlas = heedful.attention(model, text)
    atlas.maps                      (L, H, Q, K) weights of the first stack
    atlas.words().kinds()           what each head does, by measured rules
    atlas.aggregate("rollout")      (Q, K)

Cost: one forward, and a backward with gradients. Everything after that is a function of the maps and needs
neither torch nor the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import TWO_ENCODERS, Loadable, Model
from heedful.core.result import StoredResult, reports, stated
from heedful.core.result_kinds import result_kind
from heedful.core.target import Target
from heedful.heads import word_maps as wording
from heedful.heads.maps import ARRAYS, MapAxis, Maps, Weights
from heedful.io.csv_text import csv_text
from heedful.io.input_codec import input_from_dict, input_to_dict
from heedful.io.json_codec import from_jsonable, json_text, to_jsonable
from heedful.io.run_folder import OpenRun, write
from heedful.modalities.image import ImageInput
from heedful.modalities.text import TextInput, text_of

if TYPE_CHECKING:
    from heedful.heads.kinds import HeadKind

MAPS = "maps.safetensors"


@result_kind("attention", version=1)
@dataclass(frozen=True, eq=False, repr=False)
class Atlas(StoredResult):
    """Attention of every layer and head on one text: the result of `heedful.attention`.

    Parameters
    ----------
    x
        The text or picture as the model reads it.
    stacks
        Attention weights per stack. "self" comes first. Encoder-decoders have "self", "decoder" and "cross".
    model
        Facts about the model: name, kind, prediction.
    target
        The output whose gradients were taken. `None` if no gradients were taken.
    readout
        Share of the answer that is read at each position of the last layer. Empty if it is not known.
    unit
        "token" or "word", or "patch" for a picture.
    notes
        Remarks, such as truncation.
    tokens
        For an atlas of words: the atlas of tokens from which it was made.

    Examples
    --------
    >>> import heedful
    >>> atlas = heedful.attention("zoo:sentiment", "The food was great")
    >>> atlas.words().unit
    'word'
    >>> atlas.aggregate("mean").shape
    (6, 6)
    """

    kind: ClassVar[str] = "atlas"

    x: Input
    stacks: tuple[Maps, ...]  # "self" first; encoder-decoders: "self", "decoder", "cross"
    model: Mapping[str, Any]  # name, kind, prediction, attention implementation
    target: Target | None = None  # whose gradients `Maps.grads` are; None where none were taken
    readout: tuple[float, ...] = ()  # share of the answer read at each query of the last stack; () unknown
    unit: str = "token"  # or "word"
    notes: tuple[str, ...] = ()
    tokens: Atlas | None = None  # of an atlas of words: the one it was made from

    def __repr__(self) -> str:
        sizes = "; ".join(
            f"{m.stack} {m.layers} x {m.heads} heads, {len(m.queries)} x {len(m.keys)} {self.unit}s"
            for m in self.stacks
        )
        return f"<heedful.Atlas of {self.model.get('name', 'a model')}: {sizes}>"

    @property
    def maps(self) -> Weights:
        """Attention weights of the first stack, (L, H, Q, K)."""
        return self.stacks[0].weights

    def stack(self, name: str = "self") -> Maps:
        """The attention maps of one stack."""
        for maps in self.stacks:
            if maps.stack == name:
                return maps
        known = ", ".join(maps.stack for maps in self.stacks)
        raise HeedfulError(f"there is no stack {name!r}", f"this model has: {known}", f"Use one of: {known}")

    def words(self) -> Atlas:
        """The atlas of words. Attention to a word is the sum over its tokens. Attention from a word is the
        mean over its tokens. Special tokens stay separate."""
        if self.unit != "token":  # patches of a picture are merged into nothing
            return self
        stacks = tuple(map(wording.merged_maps, self.stacks))
        readout = wording.summed_shares(self.readout, self.stacks[-1].queries)
        return replace(self, stacks=stacks, readout=readout, unit="word", tokens=self)

    def uniform(self) -> Atlas:
        """The same atlas with uniform attention in every head: the control for numbers computed from an
        atlas."""
        if self.tokens is not None:
            return self.tokens.uniform().words()
        return replace(self, stacks=tuple(map(wording.uniform, self.stacks)))

    # --- what heads do -----------------------------------------------------------------------------

    def kinds(self, stack: str = "self") -> list[HeadKind]:
        """The type of each head, layer by layer. `heedful.heads.kinds` has the rules."""
        from heedful.heads.kinds import kinds

        return kinds(self.stack(stack))

    def special_mass(self, stack: str = "self") -> Floats:
        """Mean attention of words to special tokens, per head: (L, H). The control is `special_share`."""
        return wording.special_mass(self.stack(stack))

    def special_share(self, stack: str = "self") -> float:
        """The value of `special_mass` for uniform attention, mean over layers."""
        return float(wording.special_mass(self.uniform().stack(stack)).mean())

    # --- heads and layers together -----------------------------------------------------------------

    def aggregate(
        self, how: str = "mean", layer: int | None = None, stack: str = "self", query: int | None = None
    ) -> Floats:
        """Combine heads and layers into one map (Q, K), or (1, K) for one query. `how` is "mean", "max",
        "layer", "rollout", "flow" or "gradient".

        See heedful.heads.aggregate. Of an atlas of words all but the maximum are made of its tokens, then
        merged: attention mixes tokens, so a product of merged maps would not be the merged product. Merged
        is summed to a word and averaged from it; "gradient" is summed from it, too: its effects add up.
        """
        from heedful.heads.aggregate import aggregate, checked_query

        if self.tokens is None or how == "max":
            return aggregate(self.stack(stack), how, layer, query)
        fine = self.tokens.stack(stack)
        rows = wording.groups(fine.queries)
        if query is None or how != "flow":
            merge = wording.summed if how == "gradient" else wording.merged
            whole = merge(aggregate(fine, how, layer), fine.queries, fine.keys)
            return whole if query is None else whole[[checked_query(query, len(rows))]]
        wanted = rows[checked_query(query, len(rows))]
        parts = [aggregate(fine, how, layer, q)[0] for q in wanted]
        return np.asarray(wording.summed_columns(np.mean(parts, 0, keepdims=True), fine.keys))

    def rollout(self, stack: str = "self") -> Floats:
        """Attention multiplied through all layers, including the residual stream: (Q, K)."""
        return self.aggregate("rollout", stack=stack)

    def flow(self, stack: str = "self", query: int | None = None) -> Floats:
        """Maximum flow with attention weights as capacities: (Q, K), or (1, K) for one query."""
        return self.aggregate("flow", stack=stack, query=query)

    # --- views -------------------------------------------------------------------------------------

    def to_figure(
        self,
        path: str | Path,
        *,
        view: str = "grid",
        layer: int | None = None,
        head: int | None = None,
        stack: str = "self",
    ) -> None:
        """Write a .png or .svg file. `view` is "grid" (all heads), "matrix" (one head as a map), "head" (one
        head as lines) or "layout" (similar heads are close to each other)."""
        reports("atlas_figure").draw(self, path, view=view, layer=layer, head=head, stack=stack)

    def to_dict(self, weights: bool = True) -> dict[str, Any]:
        """The atlas as a dictionary. With `weights=False`, the attention maps are left out. They are the
        largest part."""
        return {
            "text": self.x.title,
            "model": dict(self.model),
            "target": None if self.target is None else self.target.name,
            "unit": self.unit,
            "readout": list(self.readout),
            "notes": list(self.notes),
            "stacks": [self._stack_dict(maps, weights) for maps in self.stacks],
        }

    def _stack_dict(self, maps: Maps, weights: bool) -> dict[str, Any]:
        results: dict[str, Any] = {
            "stack": maps.stack,
            "causal": maps.causal,
            "queries": asdict(maps.queries),
            "keys": asdict(maps.keys),
            "kinds": [kind.to_dict() for kind in self.kinds(maps.stack)],
            "special_mass": self.special_mass(maps.stack).tolist(),
            "special_share": self.special_share(maps.stack),
        }
        if any(maps.grid):
            from heedful.heads.patch_rules import mean_distance

            results |= {"grid": list(maps.grid), "mean_distance": mean_distance(maps).tolist()}
        if weights and maps.allowed is not None:
            results["allowed"] = maps.allowed.tolist()
        return results | ({"weights": maps.weights.tolist()} if weights else {})

    def to_json(self, weights: bool = True) -> str:
        """The atlas as JSON text, with or without the weights."""
        return json_text(self.to_dict(weights) | stated(self))

    # --- run folder: the maps themselves are stored, so any view of them can be drawn again --------------

    def run_title(self) -> str:
        return f"{self.model.get('name', '')}: {self.x.title}"

    def save(self, folder: str | Path, keep: str = "png") -> Path:
        """Write a run folder, which `load` and `heedful report` open.

        `keep` says what is stored of a picture: a small copy ("png"), or only the path of its file and the
        checksum ("path").
        """
        return write(folder, self, stored=self.stored(keep))

    def stored(self, keep: str = "png") -> dict[str, Any]:
        """The data for result.json. An atlas of words is stored as the atlas of tokens from which it was
        made."""
        base = self if self.tokens is None else self.tokens
        names = ("stack", "queries", "keys", "causal", "grid")
        stacks = [{name: getattr(maps, name) for name in names} for maps in base.stacks]
        facts = {name: getattr(self, name) for name in ("model", "target", "notes")}
        own = {"stacks": stacks, "readout": base.readout, "unit": base.unit, "shown": self.unit}
        return {"x": input_to_dict(self.x, keep), **to_jsonable(facts | own)}

    def blobs(self) -> dict[str, bytes]:
        from safetensors.numpy import save

        base = self if self.tokens is None else self.tokens
        named = {
            f"{at}.{name}": np.ascontiguousarray(array)
            for at, maps in enumerate(base.stacks)
            for name in ARRAYS
            if (array := getattr(maps, name)) is not None
        }
        return {MAPS: save(named)}

    @classmethod
    def from_stored(cls, data: dict[str, Any], run: OpenRun) -> Atlas:
        """Make an atlas from the data of `stored` and the files of the run folder."""
        from safetensors.numpy import load

        arrays = load(run.file(MAPS))
        stacks = tuple(_stored_maps(arrays, at, facts) for at, facts in enumerate(data["stacks"]))
        x = input_from_dict(data["x"])
        atlas = from_jsonable(cls, {**data, "x": x, "stacks": list(stacks), "tokens": None})
        return atlas.words() if data["shown"] == "word" else atlas

    def to_csv(self, what: str = "weights") -> str:
        """One line per weight. With `what="heads"`, one line per head, with its type and scores."""
        if what not in ("weights", "heads"):
            raise HeedfulError(f"unknown table {what!r}", fix="Use weights or heads")
        from heedful.heads.kinds import PATCH_SCORES, SCORES

        if what == "weights":
            columns = ["stack", "layer", "head", "query", "key", "from", "to", "weight"]
            return csv_text(columns, self._weight_rows())
        names = PATCH_SCORES if any(self.stacks[0].grid) else SCORES
        return csv_text(["stack", "layer", "head", "kind", "special_mass", *names], self._head_rows(names))

    def _weight_rows(self) -> Iterator[list[Any]]:
        for maps in self.stacks:
            for (layer, head, q, k), weight in np.ndenumerate(maps.weights):
                ends = (maps.queries.labels[q], maps.keys.labels[k])
                yield [maps.stack, layer, head, q, k, *ends, f"{weight:.6g}"]

    def _head_rows(self, names: Sequence[str]) -> Iterator[list[Any]]:
        for maps in self.stacks:
            special = self.special_mass(maps.stack)
            for kind in self.kinds(maps.stack):
                scores = [f"{kind.scores[name]:.6g}" if name in kind.scores else "" for name in names]
                mass = f"{special[kind.layer, kind.head]:.6g}"
                yield [maps.stack, kind.layer, kind.head, kind.kind, mass, *scores]


def _stored_maps(arrays: Mapping[str, Any], at: int, facts: Mapping[str, Any]) -> Maps:
    """One stack of a run folder; its arrays must have the shapes that its tokens say."""
    found: dict[str, Any] = {name: arrays.get(f"{at}.{name}") for name in ARRAYS}
    dtypes = {"weights": np.float32, "grads": np.float32, "allowed": np.bool_}
    if found["weights"] is None or any(a is not None and a.dtype != dtypes[n] for n, a in found.items()):
        raise ValueError(f"the maps of stack {at} are not those of an atlas")
    return Maps(
        stack=from_jsonable(str, facts["stack"]),
        queries=from_jsonable(MapAxis, facts["queries"]),
        keys=from_jsonable(MapAxis, facts["keys"]),
        causal=from_jsonable(bool, facts["causal"]),
        grid=from_jsonable(tuple[int, int], facts.get("grid", [0, 0])),
        **found,
    )


def attention(
    model: Loadable,
    text: Any,
    target: Any = None,
    *,
    answer: Any = None,
    gradients: bool = True,
    long: str = "error",
) -> Atlas:
    """Read the attention weights of every layer and head on one text or picture.

    Parameters
    ----------
    model
        The result of `heedful.load`, or anything that `heedful.load` accepts.
    text
        A text, a pair of texts, or a list of chat messages. For a vision transformer: a picture.
    target
        The output whose gradients are taken, as in `heedful.explain`. If `None`, the prediction.
    answer
        For a language model: the continuation to read, as text or token ids. If `None`, an encoder-decoder
        writes its own continuation, and a causal model reads only the text.
    gradients
        Also take gradients of the attention weights. `atlas.aggregate("gradient")` needs them.
    long
        What to do with a text that is too long: "error" or "truncate".

    Returns
    -------
    Atlas
        The attention weights, with views by head, layer, token and word.

    Examples
    --------
    >>> import heedful
    >>> atlas = heedful.attention("zoo:sentiment", "The food was great")
    >>> atlas
    <heedful.Atlas of zoo:sentiment: self 4 x 4 heads, 6 x 6 tokens>
    >>> atlas.maps.shape
    (4, 4, 6, 6)
    """
    from heedful.heads.capture import captured
    from heedful.models.load import load

    if long == "window":
        raise HeedfulError(
            "an atlas shows one pass", "windows are several", "Use long='truncate', or give a shorter text"
        )
    loaded = load(model)
    refuse_two_encoders(loaded)
    if isinstance(x := encoded(loaded, text, long), ImageInput):
        return _of_picture(loaded, x, target, answer, gradients)
    result = captured(loaded, x, target, answer, gradients)
    predicted = [] if loaded.kind == "encoder" else [list(pair) for pair in loaded.predict(x)]
    facts = loaded.facts() | {"prediction": predicted}
    notes = (*result.notes, *_short(len(result.x.word_spans)))
    return Atlas(result.x, result.stacks, facts, result.target, result.readout, notes=notes)


def refuse_two_encoders(model: Model) -> None:
    """An atlas shows the heads of one encoder."""
    if model.kind == TWO_ENCODERS:
        raise HeedfulError(
            f"an atlas shows the heads of one encoder, and {model.name} has two",
            fix="For the heads of its picture encoder, give captions to choose from (--labels A,B, or "
            "labels= of heedful.load). For both encoders: heedful explain PICTURE --text TEXT --method "
            "attention-avg",
        )


def _of_picture(model: Model, x: ImageInput, spec: Any, answer: Any, gradients: bool) -> Atlas:
    from heedful.heads.picture_capture import picture_maps

    if answer is not None:
        raise HeedfulError(f"{model.name} writes no answer", "it classifies pictures", "Leave answer out")
    maps, target, readout, notes = picture_maps(model, x, spec, gradients)
    facts = model.facts() | {"prediction": [list(pair) for pair in model.predict(x)]}
    return Atlas(x, (maps,), facts, target, readout, unit="patch", notes=(*x.notes, *notes))


def encoded(model: Model, text: Any, long: str) -> TextInput | ImageInput:
    """The text as the model reads it; of one that is too long, without the advice to read it in windows."""
    from heedful.modalities.encode import TooLong

    try:
        x = model.encode(text, long)
        return x if isinstance(x, ImageInput) else text_of(x)
    except TooLong as error:
        fix = "Shorten it, or use long='truncate' (--long truncate)"
        raise HeedfulError(error.what, error.why, fix) from None


def _short(words: int) -> tuple[str, ...]:
    from heedful.heads.kinds import MIN_WORDS

    if words >= MIN_WORDS:
        return ()
    return (f"kinds of heads mean little on a text of {words} word{'s' * (words != 1)}",)
