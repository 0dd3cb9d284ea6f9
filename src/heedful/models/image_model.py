"""A network over pictures as a heedful model: any module that reads (B, 3, H, W). No list of classes: what it
can do is probed on one picture.

    embeds      the pixels as the network reads them (normalised), (H·W, 3): where gradients are taken
    attentions  of vision transformers whose layers attend over all patches
    values      pictures with units removed, in batches
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.core.arrays import Floats
from heedful.core.cost import Meter
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import FeatureMap, HeadStates
from heedful.core.target import Target
from heedful.core.trace import Trace
from heedful.modalities.image import ImageInput, image_of
from heedful.modalities.image_operators import COLOURING, HIDING
from heedful.models import passes
from heedful.models.attention_hooks import Edit, Sites, attending
from heedful.models.backend import AttentionOutput, TraceOutput
from heedful.models.contexts import eager_attention, first_broken_layer, untouched
from heedful.models.feature_map import last_feature_map
from heedful.models.guided_relu import GuidedRelu
from heedful.models.head_outputs import are_probabilities, head_kind, ranked, shares_of
from heedful.models.head_states import attention_calls, states_of
from heedful.models.hf_config import different, fingerprint
from heedful.models.image_attention import close, editable_sites, hiding, positions
from heedful.models.image_reader import ImageReader
from heedful.models.image_rows import Composer, ImageRow, image_rows
from heedful.models.picture_model import PictureModel
from heedful.models.relevance_rules import RelevanceRules, relevances
from heedful.models.run_errors import RUN_ERRORS
from heedful.models.trace_pass import alone, as_trace, gradients
from heedful.models.value_zeroing import can_zero, value_maps

CPU_BATCH_PIXELS = 1 << 18  # larger batches leave the cache: twice the time per picture at 32 pictures
MAX_STATED_SPECIAL = 16  # positions in front of patches whose size is stated
MAX_GUESSED_SPECIAL = 5  # of patches whose size is guessed: a class token and four registers
TRACE_SHARE = 2  # a pass with a graph takes so many times the memory
PROBABILITIES = "The outputs of the model are probabilities, not logits: scores are changes of a probability"
MAX_REASON = 300  # characters of what it said
FAILURES = (HeedfulError, *RUN_ERRORS)


class ImageModel(PictureModel):
    """A torch module over pictures."""

    def __init__(
        self, module: nn.Module, reader: ImageReader, labels: Sequence[str] | None = None, name: str = ""
    ) -> None:
        if reader.size is None:
            raise HeedfulError(
                "the size of the pictures is not known",
                fix="Give height and width: processor=heedful.ImageReader((224, 224))",
            )
        self._module, self.reader, self.size_read = module, reader, reader.size
        self.name, self.meter = name or type(module).__name__, Meter()
        self._takes = set(inspect.signature(module.forward).parameters)
        self._colours_last = True  # in memory, which convolutions run faster
        if all(tensor.device.type == "cpu" for tensor in module.parameters()):
            self.batch_pixels = CPU_BATCH_PIXELS
        outputs = self._probe_logits(_grey(self.size_read))
        count = len(outputs)
        self.kind = head_kind(getattr(module, "config", None), count)
        # a second picture, since some logits of the first may happen to sum to 1
        self.gives_probabilities = (
            self.kind == "classifier"
            and are_probabilities(outputs)
            and are_probabilities(self._probe_logits(_noise(self.size_read)))
        )
        given = labels if labels is not None else _config_labels(module, count)
        self._labels = tuple(given or (f"class {i}" for i in range(count)))
        if len(self._labels) != count:
            raise HeedfulError(
                f"{len(self._labels)} labels were given, but {self.name} has {count} outputs",
                fix="Give one label per output",
            )

    @property
    def labels(self) -> tuple[str, ...]:
        return self._labels

    @property
    def module(self) -> nn.Module:
        return self._module

    def encode(self, raw: Any, long: str = "error") -> ImageInput:
        if isinstance(raw, Input):
            return image_of(raw)
        rows, columns, special = self.patches
        x = self.reader.read(raw, (rows, columns), special)
        return replace(x, notes=(*x.notes, PROBABILITIES)) if self.gives_probabilities else x

    def predict(self, x: Input, k: int = 5, given: Sequence[int] = ()) -> list[tuple[str, float]]:
        """Labels with probabilities, highest first; values for regression."""
        outputs = torch.from_numpy(self.scores_of(image_of(x)))
        shares = outputs if self.gives_probabilities else shares_of(self.kind, outputs)
        return ranked(self.kind, shares, k, self.labels.__getitem__)

    def facts(self) -> dict[str, Any]:
        parameters = list(self._module.parameters())
        return {
            "name": self.name,
            "kind": self.kind,
            "modality": "image",
            "labels": list(self.labels),
            "size": list(self.size_read),
            "class": type(self._module).__name__,
            "parameters": sum(p.numel() for p in parameters),
            "dtype": str(parameters[0].dtype).removeprefix("torch.") if parameters else "none",
            "fingerprint": fingerprint(self._module),
        } | ({"outputs": "probability"} if self.gives_probabilities else {})

    # --- passes ------------------------------------------------------------------------------------

    def _call(self, pixels: Tensor, **more: Any) -> Any:
        """What the module itself returns for (B, 3, H, W)."""
        pixels = pixels if self._colours_last else pixels.contiguous()
        wanted = {key: value for key, value in more.items() if key in self._takes or "kwargs" in self._takes}
        if "pixel_values" in self._takes:
            return self._module(pixel_values=pixels, **wanted)
        return self._module(pixels, **wanted)

    def _logits(self, out: Any) -> Tensor:
        logits = getattr(out, "logits", out)
        if isinstance(logits, tuple | list):
            logits = logits[0]
        if not isinstance(logits, Tensor) or logits.ndim != 2:
            shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise HeedfulError(
                f"{self.name} is no classifier of pictures",
                f"for a batch of pictures it returned {shape}, not (pictures, classes)",
            )
        return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits

    def _probe_logits(self, seen: Tensor) -> Tensor:
        """(C,) of one picture (1, H, W, 3)"""
        pixels = self._ready(seen)

        def run() -> Tensor:
            with untouched(self._module), torch.inference_mode():
                return self._logits(self._call(pixels))[0]

        try:
            try:
                return run()
            except RuntimeError:  # a module that calls .view() needs colours first
                self._colours_last = False
                return run()
        except RUN_ERRORS as error:
            raise HeedfulError(
                f"{self.name} cannot read pictures of shape {tuple(pixels.shape)}",
                f"{type(error).__name__}: {error}".splitlines()[0][:MAX_REASON],
                "Give a module that reads (pictures, 3, height, width), and its height and width: "
                "processor=heedful.ImageReader((224, 224))",
            ) from error

    def _ready(self, seen: Tensor) -> Tensor:
        """Colours (B, H, W, 3) as the module reads them, (B, 3, H, W)."""
        first = next(self._module.parameters(), torch.zeros(1))
        return self.reader.normalise(seen.to(first.device)).permute(0, 3, 1, 2).to(first.dtype)

    def score_rows(self, compose: Composer, rows: Sequence[ImageRow]) -> Floats:
        seen = torch.from_numpy(np.stack([compose(row) for row in rows]))
        with untouched(self._module), torch.inference_mode(), self._hidden(compose, rows):
            logits = self._logits(self._call(self._ready(seen)))
        self._refuse_nan(logits, seen)
        return logits.double().cpu().numpy()

    def _refuse_nan(self, logits: Tensor, seen: Tensor) -> None:
        if not bool(logits.isnan().any()):
            return
        with untouched(self._module), torch.no_grad():
            layer = first_broken_layer(self._module, lambda: self._call(self._ready(seen)))
        raise HeedfulError(
            f"{self.name} answers NaN for this picture",
            f"the first layer whose output contains a NaN is {layer}" if layer else "",
            "Check the weights, and the dtype: half precision overflows easily",
        )

    def as_pixels(self, embeds: Tensor) -> Tensor:
        """(n, H·W, 3) -> (n, 3, H, W)"""
        height, width = self.size_read
        return embeds.reshape(len(embeds), height, width, 3).permute(0, 3, 1, 2)

    def outputs(self, embeds: Tensor) -> Tensor:
        """(n, C) logits of points (n, H·W, 3) in the space where gradients are taken, with their graph."""
        with untouched(self._module):
            return self.logits_of(self.as_pixels(embeds))

    def logits_of(self, pixels: Tensor) -> Tensor:
        """(n, C) of pictures (n, 3, H, W) as the module reads them, in its present mode."""
        return self._logits(self._call(pixels))

    # --- gradients ---------------------------------------------------------------------------------

    def lookup(self, x: Input, target: Target, replaced: Sequence[int] = (), by: str = "") -> Tensor:
        """(H·W, 3) pixels as the module reads them, those in `replaced` by a baseline: black, or an operator
        such as blur, mean or noise."""
        x = image_of(x)
        seen = Composer(x).whole.copy().reshape(-1, 3)
        if len(replaced):
            seen[list(replaced)] = self._baseline(x, by).reshape(-1, 3)[list(replaced)]
        ready = self._ready(torch.from_numpy(seen).reshape(1, x.height, x.width, 3))
        return ready[0].permute(1, 2, 0).reshape(-1, 3)

    def _baseline(self, x: ImageInput, name: str) -> Any:
        if name == "black":
            return np.zeros_like(x.pixels, dtype=np.float32)
        if name not in COLOURING:
            raise HeedfulError(f"unknown baseline {name!r}", fix=f"Use one of: black, {', '.join(COLOURING)}")
        whole = np.full(len(x.units()), True)
        gone = image_rows(x, ~whole[None], name, "", COLOURING)[0]
        return Composer(x)(gone)

    def trace(self, x: Input, target: Target, hidden: bool = False) -> Trace:
        x = image_of(x)
        with self.meter.counted(forwards=1, backwards=1, unique=1, tokens=len(x)):
            embeds = self.lookup(x, target)[None].detach().clone().requires_grad_(True)
            with torch.inference_mode(False), torch.enable_grad():
                out = self.traced(embeds)
                self._refuse_nan(out.logits, torch.from_numpy(Composer(x).whole)[None])
                score = target.score(out.logits)[0]
                grads = gradients(score, out)
        return as_trace(x, target, score, out, grads, hidden)

    def traced(self, embeds: Tensor) -> TraceOutput:
        """One pass with a graph from the pixels and the attention weights to the logits."""
        with untouched(self._module), eager_attention(self._module) as before:
            out = self._call(self.as_pixels(embeds), output_attentions=True, output_hidden_states=True)
        states = getattr(out, "hidden_states", None) or ()
        maps = tuple(getattr(out, "attentions", None) or ()) if self._global_attention(out) else ()
        last = states[-1] if states and states[-1].ndim == 3 and maps else None
        hidden, notes = tuple(states) if maps else (), _switched(before, maps)
        return TraceOutput(self._logits(out), embeds, last, attentions=maps, hidden=hidden, notes=notes)

    @staticmethod
    def _global_attention(out: Any) -> bool:
        """Every layer attends over the same positions; windows and pyramids do not."""
        maps = getattr(out, "attentions", None) or ()
        square = all(m is not None and m.ndim == 4 and m.shape[-1] == m.shape[-2] for m in maps)
        return bool(maps) and square and len({m.shape for m in maps}) == 1

    def gradients(self, x: Input, target: Target, embeds: Tensor) -> tuple[Tensor, Tensor]:
        values, grads = [], []
        chunk = max(1, self.rows_at_once // TRACE_SHARE)
        for _, (value, grad) in passes.run_with_oom_retry(
            torch.split(embeds, chunk), lambda part: self._graded(part, target)
        ):
            values.append(value)
            grads.append(grad)
        return torch.cat(values), torch.cat(grads)

    def _graded(self, embeds: Tensor, target: Target) -> tuple[Tensor, Tensor]:
        count = len(embeds)
        spent = self.meter.counted(
            forwards=count, backwards=count, unique=count, tokens=count * embeds.shape[1]
        )
        with spent, torch.inference_mode(False), torch.enable_grad():
            leaf = embeds.detach().clone().requires_grad_(True)
            value = target.score(self.outputs(leaf))
            (grad,) = torch.autograd.grad(value.sum(), leaf)
        return value.detach().double(), grad

    def nudged(self, x: Input, target: Target, shift: Tensor) -> ImageInput:
        """Colours are moved and rounded to 8 bits: what a camera could have seen."""
        x = image_of(x)
        std = shift.new_tensor(self.reader.std)
        moved = x.pixels + 255 * (shift * std).reshape(x.pixels.shape).double().cpu().numpy()
        return replace(x, pixels=np.clip(np.round(moved), 0, 255).astype(np.uint8))

    def feature_map(self, x: Input, target: Target) -> FeatureMap:
        x = image_of(x)
        with self.meter.counted(forwards=1, backwards=1, unique=1, tokens=len(x)):
            found = last_feature_map(
                self._module,
                lambda pixels: target.score(self.logits_of(pixels))[0],
                self.as_pixels(self.lookup(x, target)[None]),
                self.patches,
            )
        if found is None:
            raise self._not_offered("feature-map")
        return found

    # --- attention ---------------------------------------------------------------------------------

    def attention_only(self, x: Input, target: Target | None = None) -> AttentionOutput:
        x = image_of(x)
        pixels = self.as_pixels(self.lookup(x, target or Target("class"))[None])
        spent = self.meter.counted(forwards=1, unique=1, tokens=len(x))
        with spent, untouched(self._module), eager_attention(self._module) as before, torch.no_grad():
            out = self._call(pixels, output_attentions=True)
        maps = tuple(getattr(out, "attentions", None) or ()) if self._global_attention(out) else ()
        return alone(AttentionOutput(maps, (), (), _switched(before, maps)))

    def attending(self, edit: Edit) -> AbstractContextManager[None]:
        if not self._sites:
            raise self._not_offered("edits")
        return attending(self._module, self._sites, edit)

    @cached_property
    def _sites(self) -> Sites:
        """{} where attention cannot be changed."""
        grey = self._ready(_grey(self.size_read))
        return editable_sites(self._module, lambda **more: self._call(grey, **more), self._logits)

    @property
    def named_operators(self) -> tuple[str, ...]:
        return (*self.operators, *HIDING) if self._hides else self.operators

    @cached_property
    def _hides(self) -> bool:
        """With all patches hidden two pictures give one answer: nothing passes by another way."""
        rows, columns, special = self.patches
        if not special or "edits" not in self.capabilities:
            return False
        pixels = self._ready(_noise(self.size_read, 2))
        gone = positions(torch.ones(2, rows * columns, dtype=torch.bool, device=pixels.device), special)
        with untouched(self._module), torch.inference_mode(), self.attending(hiding(gone)):
            one, other = self._logits(self._call(pixels))
        return close(one, other)

    def _hidden(self, compose: Composer, rows: Sequence[ImageRow]) -> AbstractContextManager[None]:
        """Attention without the patches that rows hide."""
        if not any(row.operator in HIDING for row in rows):
            return nullcontext()
        hidden = torch.from_numpy(np.stack([compose.hidden(row) for row in rows]))
        device = next(self._module.parameters()).device
        return self.attending(hiding(positions(hidden, self.patches[2]).to(device)))

    def head_states(self, x: Input, target: Target) -> list[list[HeadStates]]:
        x = image_of(x)
        spent = self.meter.counted(forwards=1, backwards=1, unique=1, tokens=len(x))
        with spent, torch.inference_mode(False), torch.enable_grad():
            leaf = self.lookup(x, target)[None].detach().clone().requires_grad_(True)
            with attention_calls(self._module) as calls:
                score = target.score(self.outputs(leaf))[0]
            return [states_of(score, calls, x.positions)]

    def value_maps(self, x: Input, target: Target, layers: int) -> list[Tensor]:
        embeds = self.lookup(x, target)[None]
        rows, columns, special = self.patches
        length = rows * columns + special
        with self.meter.counted(forwards=length + 1, unique=length + 1, tokens=len(x) * (length + 1)):
            return value_maps(self._module, lambda: self._call(self.as_pixels(embeds)), layers)

    def relevances(self, x: Input, target: Target) -> tuple[Tensor, ...]:
        """(H, N, N) per layer, by the rules of heedful.models.relevance_rules."""
        embeds = self.lookup(x, target)[None]
        with self.meter.counted(forwards=1, backwards=1, unique=1, tokens=len(x)):
            return self._relevances(embeds, lambda logits: target.score(logits)[0])

    def _relevances(self, embeds: Tensor, score: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
        with torch.inference_mode(False), torch.enable_grad(), untouched(self._module):
            with eager_attention(self._module), RelevanceRules():
                out = self._call(self.as_pixels(embeds.detach().clone()), output_attentions=True)
            return relevances(self._logits(out), tuple(out.attentions), score)

    # --- what it can do ----------------------------------------------------------------------------

    @property
    def capabilities(self) -> frozenset[str]:
        return self._probed[0]

    @property
    def patches(self) -> tuple[int, int, int]:
        """(rows, columns, special positions in front); zeros where it has no patches."""
        return self._probed[1]

    @cached_property
    def _probed(self) -> tuple[frozenset[str], tuple[int, int, int]]:
        height, width = self.size_read
        found, none = {"values", "picture", "crops"}, (0, 0, 0)
        grey = self._ready(_grey(self.size_read)).permute(0, 2, 3, 1).reshape(1, -1, 3)
        with torch.inference_mode(False), torch.enable_grad():
            try:
                embeds = grey.detach().clone().requires_grad_(True)
                with GuidedRelu() as rule:  # counts ReLUs
                    out = self.traced(embeds)
                wrt = [embeds, *out.attentions]
                grads = torch.autograd.grad(out.logits.float().sum(), wrt, allow_unused=True)
            except FAILURES:
                return frozenset(found), none
        if grads[0] is not None:
            found |= {"gradients", "relu"} if rule.calls else {"gradients"}
        patches = None
        if out.attentions and not all(grad is None for grad in grads[1:]):
            patches = _patches(self._module, out.attentions[0].shape[-1], height, width)
        score: Callable[[Tensor], Tensor] = lambda pixels: self._logits(self._call(pixels))[0, 0]  # noqa: E731
        if last_feature_map(self._module, score, self.as_pixels(grey), patches or none) is not None:
            found.add("feature-map")
        if patches is None:
            return frozenset(found), none
        found.add("attentions")
        run: Callable[[], Any] = lambda: self._call(self.as_pixels(grey))  # noqa: E731
        if can_zero(self._module, run, len(out.attentions)):
            found.add("value-maps")
        try:
            self._relevances(grey, lambda logits: logits[0, 0])
            found.add("relevance")
        except FAILURES:  # an operation without a rule
            pass
        if self._sites:
            found |= {"edits", "head-states"}
        return frozenset(found), patches


def _grey(size: tuple[int, int]) -> Tensor:
    """(1, H, W, 3)"""
    return torch.full((1, *size, 3), 0.5)


def _noise(size: tuple[int, int], count: int = 1) -> Tensor:
    """(count, H, W, 3)"""
    return torch.from_numpy(np.random.default_rng(0).random((count, *size, 3)).astype(np.float32))


def _switched(before: str, maps: Sequence[Tensor]) -> tuple[str, ...]:
    switched = before not in ("eager", "none") and bool(maps)
    return (f"attention switched from {before} to eager for this pass",) if switched else ()


def _patches(module: nn.Module, positions: int, height: int, width: int) -> tuple[int, int, int] | None:
    """(rows, columns, special) of a sequence of so many positions: by the patch size that the config states,
    else the grid of equal squares over the picture that leaves the fewest positions over."""
    config = getattr(module, "config", None)
    sides = _sides(getattr(getattr(config, "vision_config", config), "patch_size", None))
    if sides is not None:
        rows, columns = height // sides[0], width // sides[1]
        special = positions - rows * columns
        return (rows, columns, special) if 0 <= special <= MAX_STATED_SPECIAL and rows and columns else None
    # a smaller square gives more patches, so the first that fits leaves the fewest over
    for side in range(1, min(height, width) // 2 + 1):
        rows, columns = height // side, width // side
        if height % side == width % side == 0 and 0 <= positions - rows * columns <= MAX_GUESSED_SPECIAL:
            return rows, columns, positions - rows * columns
    return None


def _sides(stated: Any) -> tuple[int, int] | None:
    """(height, width) of a patch that is stated as a number, a pair or {"height": ..., "width": ...}; None
    where it is stated in no such way."""
    if isinstance(stated, Mapping):
        stated = (stated.get("height"), stated.get("width"))
    pair = (stated, stated) if isinstance(stated, int) else stated
    if not isinstance(pair, Sequence) or len(pair) != 2:
        return None
    height, width = pair
    whole = isinstance(height, int) and isinstance(width, int) and height > 0 and width > 0
    return (height, width) if whole else None


def _config_labels(module: nn.Module, count: int) -> tuple[str, ...] | None:
    names = getattr(getattr(module, "config", None), "id2label", None)
    if not isinstance(names, dict):
        return None
    return different(str(names.get(i, f"class {i}")) for i in range(count))
