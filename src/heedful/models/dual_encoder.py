"""Models that compare a picture with a text: CLIP, SigLIP, any pair of encoders, as one heedful model.

    similarity   cos(u, v) of the vector u of the picture and the vector v of the text: what is explained
    logit        scale · cos(u, v) + bias, where the model has these (target="logit")
    A rather than B   the difference of the similarities with two texts: {"contrast": "a blue star"}

The picture's encoder is a `PictureModel` and the text's encoder a model of texts, whose "logits" are the
vectors (heedful.models.vector_modules), so reading, removing, tracing and attention are theirs. Each distinct
picture and each distinct text is encoded once and its vector is kept: removing only words costs no pass of
the picture.

What each operator does to pictures and to words: heedful.modalities.joint. Special tokens are never removed.
Points in embedding space are packed, (3·H·W + T·d, 1): first the pixels, then the tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from heedful.core.arrays import Floats
from heedful.core.cost import Meter
from heedful.core.defaults import AUDIT_CONTROLS
from heedful.core.errors import HeedfulError
from heedful.core.input import Input, Rectangle
from heedful.core.model import TWO_ENCODERS, FeatureMap, HeadStates, Masks, Model
from heedful.core.progress import Progress
from heedful.core.removal_record import not_recording, record
from heedful.core.target import Target
from heedful.core.trace import Trace
from heedful.modalities.encode import TooLong
from heedful.modalities.image_operators import checked_image_operator
from heedful.modalities.joint import WORD_OPERATORS, JointInput, joint_of, split_raw
from heedful.modalities.operators import InputRow
from heedful.modalities.text import TextInput
from heedful.models import passes, targets
from heedful.models.adapter import TokenModel
from heedful.models.feature_map import last_feature_map
from heedful.models.function import FunctionModel
from heedful.models.head_states import attention_calls, states_of
from heedful.models.hf_config import fingerprint
from heedful.models.image_model import TRACE_SHARE, ImageModel
from heedful.models.image_rows import Composer, ImageRow, draws_of, image_rows
from heedful.models.picture_model import PictureModel
from heedful.models.trace_pass import as_trace, gradients

VECTOR = Target("class")  # of a side: all its outputs are wanted, so any target will do
KEPT = 8192  # vectors of each side that are remembered
SIMILARITY, LOGIT = "similarity", "logit"


@dataclass(frozen=True)
class JointRow:
    """One model input: a picture and a text, of which parts may be gone."""

    picture: ImageRow
    text: InputRow

    def __len__(self) -> int:
        return 1


class DualEncoder(Model):
    """Two encoders whose vectors are compared.

    Parameters
    ----------
    picture
        Pictures to vectors: an `ImageModel` or `ImageFunction` whose outputs are the vector.
    text
        Texts to vectors: a `TokenModel` or `FunctionModel` likewise.
    name
        What it is called.
    scale
        What the cosine is multiplied by in the model's own logit.
    bias
        What is added to it.
    """

    kind = TWO_ENCODERS
    modality = JointInput.modality
    some_input = {"picture": np.full((8, 8, 3), 128, dtype=np.uint8), "text": "a"}  # noqa: RUF012
    default_methods = (
        *("grad-x-input", "integrated-gradients", "grad-eclip", "chefer", "occlusion", "lime"),
        *AUDIT_CONTROLS,
    )
    baselines = PictureModel.baselines

    def __init__(
        self,
        picture: PictureModel,
        text: TokenModel | FunctionModel,
        name: str = "",
        scale: float = 1.0,
        bias: float = 0.0,
    ) -> None:
        self.picture, self.text, self.scale, self.bias = picture, text, scale, bias
        self.name, self.meter, self.window = name or picture.name, Meter(), None
        self._pictures: dict[tuple[str, ImageRow], Floats] = {}
        self._texts: dict[InputRow, Floats] = {}

    @property
    def module(self) -> nn.Module | None:
        """The user's own module."""
        side = self.picture.module
        return None if side is None else side.get_submodule("model")

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(name for name in self.picture.operators if name in WORD_OPERATORS)

    @property
    def named_operators(self) -> tuple[str, ...]:
        return tuple(name for name in self.picture.named_operators if name in WORD_OPERATORS)

    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind,
            "modality": self.modality,
            "labels": [],
        }
        size = self.picture.reader.size
        facts |= {"size": None if size is None else list(size), "window": self.text.window}
        if self.module is None:
            return facts | {"class": "function"}
        first = next(self.module.parameters())
        return facts | {
            "class": type(self.module).__name__,
            "parameters": self.size,
            "dtype": str(first.dtype).removeprefix("torch."),
            "fingerprint": fingerprint(self.module),
        }

    # --- reading -----------------------------------------------------------------------------------

    def encode(self, raw: Any, long: str = "error") -> JointInput:
        """{"picture": ..., "text": ...}, and "regions" if wished."""
        if isinstance(raw, Input):
            return joint_of(raw)
        if long == "window":
            raise HeedfulError(
                "a caption is not read in windows", fix="Use long='truncate' (--long truncate)"
            )
        picture, text = split_raw(raw)
        return JointInput(self.picture.encode(picture), self.encode_text(text, long))

    def truth_mask(self, raw: Any, given: Any) -> npt.NDArray[np.bool_]:
        """Of the picture; no word is the thing that must be found."""
        mask, words = self.picture.truth_mask(raw, given), self.encode(raw, "truncate").text
        return np.concatenate([mask, np.zeros(len(words), dtype=bool)])

    def encode_text(self, text: str, long: str = "error") -> TextInput:
        try:
            x = self.text.encode(text, long)
        except TooLong as error:  # it is not read in windows
            fix = "Shorten it, or use long='truncate' (--long truncate)"
            raise TooLong(error.what, error.why, fix) from None
        if not isinstance(x, TextInput):
            raise HeedfulError("the text cannot be read")
        return x

    def target(self, x: Input, spec: Any = None) -> Target:
        if isinstance(spec, Target):
            return spec
        text, wish = joint_of(x).text.text, targets.as_mapping(spec)
        kind, other = str(wish.pop("label", SIMILARITY)), wish.pop("contrast", None)
        if kind == text:
            kind = SIMILARITY
        if wish or kind not in (SIMILARITY, LOGIT):
            raise HeedfulError(
                "what is explained is the similarity of the picture and the text",
                fix="Use similarity or logit; for A rather than B give A as the text (--text A) and B as the "
                'contrast: {"contrast": "B"}, or --contrast B on the command line',
            )
        if other is None:
            return Target(kind, label=text)
        if not isinstance(other, str) or other == text:
            raise HeedfulError(f"{text!r} cannot be contrasted with {other!r}", fix="Give another text")
        self.encode_text(other)  # refuses what cannot be read
        return Target(kind, label=text, contrast=1, contrast_label=other)

    def predict(self, x: Input, k: int = 5, given: Sequence[int] = ()) -> list[tuple[str, float]]:
        """The text, with its cosine."""
        x = joint_of(x)
        row = [JointRow(ImageRow(), self._whole_text(x.text))]
        return [(x.text.text, float(self._values(x, Target(SIMILARITY), Composer(x.picture), row)[0]))]

    # --- values ------------------------------------------------------------------------------------

    def rows(
        self, x: Input, target: Target, keep: Masks, operator: str | None = None, unit: str = ""
    ) -> list[Any]:
        x, masks = joint_of(x), np.asarray(keep, dtype=bool)
        (first, second), count = x.parts_of(unit), x.picture_units(unit)
        if masks.ndim != 2 or masks.shape[1] != len(x.units(unit)):
            raise HeedfulError(f"keep has shape {masks.shape}, but there are {len(x.units(unit))} units")
        name = checked_image_operator(operator, self.named_operators).name
        words = next(how for how in WORD_OPERATORS[name] if how in self.text.operators)
        with not_recording():
            pictures = image_rows(x.picture, masks[:, :count], name, first, self.named_operators)
            texts = self.text.rows(x.text, VECTOR, masks[:, count:], words, second)
        if not masks.all():
            record(name)
        draws = draws_of(name, self.named_operators)
        return [JointRow(picture, texts[at // draws]) for at, picture in enumerate(pictures)]

    def values(
        self,
        x: Input,
        target: Target,
        keep: Masks,
        operator: str | None = None,
        unit: str = "",
        progress: Progress | None = None,
        cache: Any = None,
    ) -> Floats:
        """The mean over the draws of the operator."""
        x = joint_of(x)
        compose, rows = Composer(x.picture), self.rows(x, target, keep, operator, unit)
        values = self._evaluated(x, target, compose, rows, progress, cache)
        return np.asarray(values.reshape(-1, draws_of(operator, self.named_operators)).mean(1))

    def _evaluated(
        self,
        x: JointInput,
        target: Target,
        compose: Composer,
        rows: list[Any],
        progress: Progress | None = None,
        cache: Any = None,
    ) -> Floats:
        def run(chunk: list[Any]) -> Floats:
            with self.meter.counted(unique=len(chunk)):
                return self._values(x, target, compose, chunk)

        values, _ = passes.evaluate(
            rows, run, memory=cache, most=self.picture.rows_at_once, progress=progress
        )
        self.meter.forwards += len(rows)
        return values

    def crop_values(self, x: Input, target: Target, boxes: Sequence[Rectangle]) -> Floats:
        """Of each part of the picture that is cut out and enlarged; the text stays whole."""
        x = joint_of(x)
        whole = self._whole_text(x.text)
        rows: list[Any] = [JointRow(ImageRow(box=tuple(box)), whole) for box in boxes]
        return self._evaluated(x, target, Composer(x.picture), rows)

    def _values(self, x: JointInput, target: Target, compose: Composer, rows: Sequence[JointRow]) -> Floats:
        pictures = self._picture_vectors(x.picture.key, compose, [row.picture for row in rows])
        texts = self.text_vectors([row.text for row in rows])
        score = self._score(target, torch.from_numpy(pictures), torch.from_numpy(texts))
        return np.asarray(score.numpy(), dtype=np.float64)

    def _picture_vectors(self, key: str, compose: Composer, rows: Sequence[ImageRow]) -> Floats:
        """(n, d), each distinct one encoded once."""
        fresh = [row for row in dict.fromkeys(rows) if (key, row) not in self._pictures]
        known = {row: self._pictures[key, row] for row in rows if (key, row) in self._pictures}
        if fresh:
            made = self.picture.score_rows(compose, fresh)
            known |= zip(fresh, made, strict=True)
            self.meter.tokens += len(fresh) * len(compose.x)
        if len(self._pictures) > KEPT:
            self._pictures.clear()
        self._pictures |= {(key, row): vector for row, vector in known.items()}
        return np.stack([known[row] for row in rows])

    def text_vectors(self, rows: Sequence[InputRow]) -> Floats:
        """(n, d), each distinct one encoded once."""
        fresh = [row for row in dict.fromkeys(rows) if row not in self._texts]
        known = {row: self._texts[row] for row in rows if row in self._texts}
        if fresh:
            known |= zip(fresh, self._encoded_texts(fresh), strict=True)
            self.meter.tokens += sum(map(len, fresh))
        if len(self._texts) > KEPT:
            self._texts.clear()
        self._texts |= known
        return np.stack([known[row] for row in rows])

    def _encoded_texts(self, rows: list[InputRow]) -> Floats:
        if isinstance(self.text, FunctionModel):
            return self.text.scores([row.text for row in rows])
        made: dict[int, Floats] = {}
        for numbers in passes.ragged(rows, self.text.rows_at_once):
            vectors = self.text.answers([rows[i] for i in numbers], VECTOR).double().cpu().numpy()
            made |= zip(numbers, vectors, strict=True)
        return np.stack([made[i] for i in range(len(rows))])

    def _whole_text(self, x: TextInput) -> InputRow:
        whole = np.ones((1, len(x.units())), dtype=bool)
        row: InputRow = self.text.rows(x, VECTOR, whole)[0]
        return row

    def vector_of(self, text: str) -> Floats:
        """(d,) of a text."""
        return np.asarray(self.text_vectors([self._whole_text(self.encode_text(text))])[0])

    def _score(self, target: Target, pictures: Tensor, texts: Tensor) -> Tensor:
        """(n,) of vectors (n, d) of pictures and of texts."""
        check_lengths(pictures.shape[1], texts.shape[1])
        columns = [nn.functional.cosine_similarity(pictures, texts, eps=1e-30)]
        if target.contrast is not None:
            other = torch.from_numpy(self.vector_of(target.contrast_label)).to(pictures)
            columns.append(nn.functional.cosine_similarity(pictures, other[None], eps=1e-30))
        logits = torch.stack(columns, 1)  # (n, 1 or 2)
        return target.score(self.scale * logits + self.bias if target.kind == LOGIT else logits)

    # --- gradients ---------------------------------------------------------------------------------

    @property
    def capabilities(self) -> frozenset[str]:
        return self._found

    @cached_property
    def _found(self) -> frozenset[str]:
        found = {"values", "picture", "crops"}
        if not (isinstance(self.picture, ImageModel) and isinstance(self.text, TokenModel)):
            return frozenset(found)
        own, words = self.picture.capabilities, self.text.capabilities
        both = own & words & {"gradients", "attentions"}
        found |= both
        if "gradients" in both:
            found |= (own & {"feature-map"}) | ((own | words) & {"relu"})
            if "head-states" in own and "edits" in words:
                found.add("head-states")
        return frozenset(found)

    def _sides(self) -> tuple[ImageModel, TokenModel]:
        if not isinstance(self.picture, ImageModel) or not isinstance(self.text, TokenModel):
            raise self._not_offered("gradients")
        return self.picture, self.text

    def embed_parts(self, x: Input, embeds: Tensor) -> list[Tensor]:
        """Pixels (..., H·W, 3) and tokens (..., T, d)."""
        x, lead = joint_of(x), embeds.shape[:-2]
        pixels, tokens = torch.split(
            embeds[..., 0], [3 * len(x.picture), embeds.shape[-2] - 3 * len(x.picture)], -1
        )
        return [pixels.reshape(*lead, len(x.picture), 3), tokens.reshape(*lead, len(x.text), -1)]

    def lookup(self, x: Input, target: Target, replaced: Sequence[int] = (), by: str = "") -> Tensor:
        """Packed; replaced pixels as in the baseline `by` of pictures, replaced tokens blank."""
        x, (picture, text) = joint_of(x), self._sides()
        pixels = [atom for atom in replaced if atom < len(x.picture)]
        tokens = [atom - len(x.picture) for atom in replaced if atom >= len(x.picture)]
        own = picture.lookup(x.picture, target, pixels, by)
        with not_recording():
            words = text.lookup(x.text, VECTOR, tokens, self._blank if tokens else "")
        return _packed(own, words)

    @property
    def _blank(self) -> str:
        """What a token is replaced by in every baseline."""
        return "mask" if "mask" in self.text.operators else "mean"

    def trace(self, x: Input, target: Target, hidden: bool = False) -> Trace:
        x, (picture, text) = joint_of(x), self._sides()
        with self._counted(1, len(x)), torch.inference_mode(False), torch.enable_grad():
            pixels = picture.lookup(x.picture, target)[None].detach().clone().requires_grad_(True)
            seen, read = picture.traced(pixels), text.traced(text.inputs(x.text, VECTOR))
            score = self._score(target, seen.logits, read.logits)[0]
            grads = gradients(score, seen, again=True), gradients(score, read)
        parts = (
            as_trace(x.picture, target, score, seen, grads[0], hidden),
            as_trace(x.text, target, score, read, grads[1], hidden),
        )
        return Trace(
            x=x,
            target=target,
            output=score.item(),
            embeds=_packed(*(part.embeds for part in parts)),
            grad_embeds=_packed(*(part.grad_embeds for part in parts)),
            notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
            parts=parts,
        )

    def gradients(self, x: Input, target: Target, embeds: Tensor) -> tuple[Tensor, Tensor]:
        run: Callable[[Tensor], Any] = lambda part: self._graded(joint_of(x), target, part)  # noqa: E731
        chunk = max(1, self.picture.rows_at_once // TRACE_SHARE)
        parts = [made for _, made in passes.run_with_oom_retry(torch.split(embeds, chunk), run)]
        return torch.cat([value for value, _ in parts]), torch.cat([grad for _, grad in parts])

    def _graded(self, x: JointInput, target: Target, embeds: Tensor) -> tuple[Tensor, Tensor]:
        picture, text = self._sides()
        pixels, tokens = self.embed_parts(x, embeds)
        with self._counted(len(embeds), len(x)), torch.inference_mode(False), torch.enable_grad():
            leaf = pixels.detach().clone().requires_grad_(True)
            inputs, _ = text.batch([text.row(x.text, VECTOR)] * len(embeds), VECTOR)
            vectors, words = text.forward_with_grad(replace(inputs, embeds=tokens.detach()))
            value = self._score(target, picture.outputs(leaf), vectors)
            grads = torch.autograd.grad(value.sum(), [leaf, words])
        return value.detach().double(), _packed(*grads)

    def nudged(self, x: Input, target: Target, shift: Tensor) -> JointInput:
        """The picture is moved, the words stay: words between words are no words."""
        x, (picture, _) = joint_of(x), self._sides()
        return replace(x, picture=picture.nudged(x.picture, target, self.embed_parts(x, shift)[0]))

    def moved_part(self, x: Input, embeds: Tensor) -> Tensor:
        """(H·W, 3)"""
        return self.embed_parts(x, embeds)[0]

    def feature_map(self, x: Input, target: Target) -> FeatureMap:
        x, (picture, _) = joint_of(x), self._sides()
        words = torch.from_numpy(self.text_vectors([self._whole_text(x.text)]))

        def score(pixels: Tensor) -> Tensor:
            vector = picture.logits_of(pixels)
            return self._score(target, vector, words.to(vector))[0]

        with self._counted(1, len(x)):
            found = last_feature_map(
                picture.module,
                score,
                picture.as_pixels(picture.lookup(x.picture, target)[None]),
                picture.patches,
            )
        if found is None:
            raise self._not_offered("feature-map")
        return found

    def head_states(self, x: Input, target: Target) -> list[list[HeadStates]]:
        x, (picture, text) = joint_of(x), self._sides()
        with self._counted(1, len(x)), torch.inference_mode(False), torch.enable_grad():
            pixels = picture.lookup(x.picture, target)[None].detach().clone().requires_grad_(True)
            with attention_calls(picture.module) as seen:
                vector = picture.outputs(pixels)
            with attention_calls(text.module) as read:
                words, _ = text.forward_with_grad(text.inputs(x.text, VECTOR))
            score = self._score(target, vector, words)[0]
            own = states_of(score, seen, x.picture.positions, again=True)
            return [own, states_of(score, read, x.text.positions)]

    def _counted(self, rows: int, atoms: int) -> AbstractContextManager[None]:
        return self.meter.counted(forwards=rows, backwards=rows, unique=rows, tokens=rows * atoms)


def check_lengths(picture: int, text: int) -> None:
    """Vectors of different length cannot be compared."""
    if picture != text:
        raise HeedfulError(
            "the vectors of pictures and of texts have different lengths",
            f"a picture gives {picture:,} numbers and a text {text:,}",
            "Give two encoders whose vectors have the same length",
        )


def _packed(pixels: Tensor, tokens: Tensor) -> Tensor:
    """(..., H·W, 3) and (..., T, d) as (..., 3·H·W + T·d, 1)"""
    return torch.cat([pixels.flatten(-2), tokens.to(pixels).flatten(-2)], -1)[..., None]
