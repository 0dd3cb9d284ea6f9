"""A model that reads tokens: `Encoded` in, one number per row out. Works over any `Backend`.

trace   one forward + backward of the user's own model: embeddings, attention weights, gradients of both
rows    many masked rows, through the engine of heedful.models.passes
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.core import removal_record
from heedful.core.arrays import Floats
from heedful.core.attribution import Cost
from heedful.core.errors import HeedfulError
from heedful.core.input import Encoded
from heedful.core.model import Masks
from heedful.core.progress import Progress
from heedful.core.target import Target
from heedful.core.trace import Trace
from heedful.modalities import operators
from heedful.modalities import text as encoding
from heedful.modalities.operators import InputRow
from heedful.modalities.swap_words import current_words
from heedful.models import passes, targets
from heedful.models.attention_hooks import Edit
from heedful.models.backend import AttentionOutput, Backend, Inputs, Meter
from heedful.models.batch import batch, pick, tail_of
from heedful.models.contrast_pass import joined
from heedful.models.prefix_cache import Begun, after
from heedful.models.swap_tokens import fitted, swaps
from heedful.models.trace_pass import alone, as_trace, gradients
from heedful.models.written_text import written_text

GENERATORS = ("causal-lm", "encoder-decoder")


class TokenModel:
    """A transformer behind one door; see heedful.core.model.Model."""

    def __init__(self, backend: Backend, tokenizer: Any) -> None:
        encoding.require_fast(tokenizer)
        self.backend, self.tokenizer = backend, tokenizer
        self.name, self.kind = backend.name, backend.kind
        self.labels, self.window = backend.labels, backend.window
        self.meter = Meter()

    def __repr__(self) -> str:
        return f"<heedful model {self.name}: {self.kind}>"

    @property
    def module(self) -> nn.Module:
        """The user's own module."""
        return self.backend.module

    @property
    def capabilities(self) -> frozenset[str]:
        return self.backend.offers()

    @property
    def spent(self) -> Cost:
        return self.meter.read()

    @cached_property
    def operators(self) -> tuple[str, ...]:
        """What this tokenizer has a token for and the model a table for, the default first."""
        lacks = {name for name in ("mask", "unk") if self._filler(name) is None}
        lacks |= set() if self.backend.has_mean else {"mean"}
        return tuple(name for name in operators.OPERATORS if name not in lacks)

    def facts(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "labels": list(self.labels), "window": self.window} | (
            self.backend.facts()
        )

    def encode(self, text: Any, long: str = "error") -> Encoded:
        if isinstance(text, Encoded):
            return text
        keep = "end" if self.kind == "causal-lm" else "start"
        if long == "window" and self.kind in GENERATORS:
            raise HeedfulError(
                f"windows do not suit a {self.kind}",
                "what it writes depends on the text only as far as the window reaches",
                f"Use long='truncate', which keeps the {keep}",
            )
        most = self.window if long == "error" else None
        return encoding.fit(encoding.encode(self.tokenizer, text, most), self.window, long, keep=keep)

    # --- targets -----------------------------------------------------------------------------------

    def target(self, x: Encoded, spec: Any = None) -> Target:
        if isinstance(spec, Target):
            return spec
        if self.kind == "encoder":
            raise HeedfulError(
                f"{self.name} makes no prediction",
                "it is an encoder that returns hidden states, without a head",
                "Load a classifier or a language model",
            )
        if self.kind not in GENERATORS:
            logits = self.logits(x)
            return targets.for_classifier(spec, self.kind, self.labels, int(logits.argmax()))
        if self.kind == "encoder-decoder":
            wish = targets.as_mapping(spec)
            if "position" in wish:
                raise HeedfulError(
                    "an encoder-decoder writes its answer afresh",
                    "a position in the text it reads is none in what it writes",
                    "Name a token, or a sequence",
                )
            spec = wish or {"sequence": self.answer(x)}
        size: int = self.backend.vocabulary  # type: ignore[attr-defined]
        found = targets.for_generator(
            spec, x, self._ids_of, self._show, lambda given: int(self._next_logits(x, given).argmax()), size
        )
        self._check_fits(x, found)
        return found

    def _check_fits(self, x: Encoded, target: Target) -> None:
        """A continuation is read too, all but its last token."""
        read, written = len(x) if self.kind == "causal-lm" else 1, max(len(s.written) for s in target.sides)
        if self.window is not None and read + written > self.window:
            raise HeedfulError(
                f"the text has {len(x):,} tokens and the continuation {written + 1:,}",
                f"the model reads at most {self.window:,}",
                "Explain a shorter continuation",
            )

    def _ids_of(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _show(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids)))

    def answer(self, x: Encoded, max_new_tokens: int = 32, **options: Any) -> list[int]:
        """Ids of what the model writes after the text, greedily unless a strategy is named."""
        self.require_room(x, max_new_tokens)
        inputs = Inputs(torch.tensor([x.ids]), torch.ones(1, len(x), dtype=torch.long))
        ids: list[int] = self.backend.generate(  # type: ignore[attr-defined]
            inputs, max_new_tokens=max_new_tokens, **options
        )
        return ids

    def predict(self, x: Encoded, k: int = 5, given: Sequence[int] = ()) -> list[tuple[str, float]]:
        """Labels (next tokens after the text and the tokens `given`) with probabilities, highest first;
        values for regression."""
        return self.ranked(self._next_logits(x, given), k)

    def ranked(self, logits: Tensor, k: int) -> list[tuple[str, float]]:
        """The same from logits (C,) or (V,)."""
        if self.kind == "regression":
            return [(label, float(value)) for label, value in zip(self.labels, logits, strict=True)]
        shares = logits.sigmoid() if self.kind == "multi-label" else logits.softmax(-1)
        top = shares.topk(min(k, len(shares)))
        name = (lambda i: self._show([i])) if self.kind in GENERATORS else self.labels.__getitem__
        return list(zip(map(name, top.indices.tolist()), top.values.tolist(), strict=True))

    def logits(self, x: Encoded | Sequence[int]) -> Tensor:
        """Logits of one input: (C,) for classifiers, (V,) of the next token for language models."""
        return self._next_logits(x, ())

    def _next_logits(self, x: Encoded | Sequence[int], given: Sequence[int]) -> Tensor:
        row = InputRow(x.ids, x.type_ids) if isinstance(x, Encoded) else InputRow(tuple(x))
        probe = Target(kind="token" if self.kind in GENERATORS else "class", given=tuple(given))
        return self._picked_logits([self._never_empty(row)], probe)[0]

    def written(self, target: Target) -> Encoded | None:
        """What was written before the token that is explained; None: nothing, or the target is a sequence,
        whose written tokens are themselves explained."""
        return written_text(self.tokenizer, target.given) if target.given else None

    # --- rows --------------------------------------------------------------------------------------

    def rows(
        self,
        x: Encoded,
        target: Target,
        keep: Masks,
        operator: str | None = None,
        unit: str = "word",
        progress: Progress | None = None,
        memory: passes.RowCache | None = None,
    ) -> Floats:
        """Target value of each row of `keep` (n, d), d = number of units of x, or of x and what was written;
        see heedful.models.passes."""
        written = self.written(target)
        keep, operator, groups = operators.checked(x, keep, operator, unit, self.operators, written)
        stop = len(x) if target.position is None else target.position
        remove = self._remover(x, stop, operator, partial(self._swaps, x, target, unit))
        inputs = [
            self._never_empty(remove(gone={t for d in np.flatnonzero(~row) for t in groups[d]}))
            for row in keep
        ]
        if written is not None and keep.shape[1] > len(x.units(unit)):
            part = self._remover(written, len(written), operator, partial(self._written_swaps, written, unit))
            gone = [
                {t - len(x) for d in np.flatnonzero(~row) for t in groups[d] if t >= len(x)} for row in keep
            ]
            inputs = [
                replace(row, written=part(gone=some)) if some else row
                for row, some in zip(inputs, gone, strict=True)
            ]
        prefix = self._prefix(x.ids[:stop])
        values, _ = passes.evaluate(
            inputs,
            lambda chunk: self._run(chunk, target, prefix),
            memory=memory,
            most=1 if self.backend.one_row_at_a_time else None,
            progress=progress,
            prefix=prefix,
            copies=len(target.sides),
        )
        self.meter.forwards += len(inputs)
        return values

    def _remover(
        self, x: Encoded, stop: int, operator: str, new: Callable[[], dict[int, Sequence[int]]]
    ) -> Callable[..., InputRow]:
        """(gone=positions) -> the row without them; `new` gives the words of the operator "swap"."""
        if operator == "swap":
            return partial(operators.swapped, x, stop, new=new())
        return partial(operators.removed, x, stop, operator=operator, filler=self._filler(operator))

    def _written_swaps(self, written: Encoded, unit: str) -> dict[int, Sequence[int]]:
        """The same of what was written; none longer than its unit, so that there is room for it."""
        groups = written.units(unit)
        new = fitted(swaps(self.tokenizer, written, unit, current_words()), groups, 0)
        return {group[0]: ids for group, ids in zip(groups, new, strict=True)}

    def _swaps(self, x: Encoded, target: Target, unit: str) -> dict[int, Sequence[int]]:
        """By a unit's first token, the ids of the words that stand for the unit; all rows use the same."""
        groups = x.units(unit)
        written = max(len(side.written) for side in target.sides) if self.kind == "causal-lm" else 0
        room = None if self.window is None else self.window - len(x) - written
        new = fitted(swaps(self.tokenizer, x, unit, current_words()), groups, room)
        return {group[0]: ids for group, ids in zip(groups, new, strict=True)}

    def _filler(self, operator: str) -> int | None:
        if operator not in ("mask", "unk"):
            return None
        if operator == "unk" and not encoding.knows_unknown_words(self.tokenizer):
            return None
        return self.backend.special_id(operator)

    def _never_empty(self, row: InputRow) -> InputRow:
        """A model needs something to read: nothing left means its first token, else a blank one."""
        if len(row.hidden) < len(row):
            return row
        for name in ("bos", "eos", "mask", "unk", "pad"):
            if (begin := self.backend.special_id(name)) is not None:
                return InputRow((begin,), None if row.type_ids is None else (0,))
        raise HeedfulError("nothing is left of the text, and the tokenizer has no token to stand for nothing")

    def _prefix(self, ids: Sequence[int]) -> Begun | None:
        """What rows that begin like the text need not read again; see heedful.models.prefix_cache."""
        if self.kind != "causal-lm" or len(ids) < 2 * passes.BLOCK:
            return None
        able = getattr(self.backend, "shares_prefixes", False)
        return Begun(ids, self.backend, self.meter) if able else None

    def _run(self, chunk: list[InputRow], target: Target, prefix: Begun | None = None) -> Floats:
        """Counted as it is run, so that the count is right after an interruption, too."""
        logits = None
        if prefix is not None and (shared := prefix.of(chunk[0])):
            prefix.read()
            with self.meter.counted(tokens=self._tokens(chunk, target, shared)):
                logits = self._continued_logits(chunk, target, prefix, shared)
        if logits is None:
            with self.meter.counted(tokens=self._tokens(chunk, target)):
                logits = self._picked_logits(chunk, target)
        with self.meter.counted(unique=len(chunk)):
            return target.score(logits).double().cpu().numpy()

    def _tokens(self, chunk: Sequence[InputRow], target: Target, shared: int = 0) -> int:
        """How many the model reads: of each row what is not `shared`, and what was written after it."""
        return sum(len(row) - shared + len(tail_of(row, side)) for row in chunk for side in target.sides)

    def _continued_logits(
        self, chunk: list[InputRow], target: Target, prefix: Begun, shared: int
    ) -> Tensor | None:
        """The logits the target reads, the first `shared` tokens read before; None if they hold a NaN."""
        inputs, places = after(*self._batch(chunk, target), shared)
        with torch.inference_mode():
            logits = wide(prefix.forward(inputs, shared))
            return None if bool(logits.isnan().any()) else self._pick(logits, places, inputs, target)

    def _picked_logits(self, chunk: list[InputRow], target: Target) -> Tensor:
        """(n, C), (n, V) or (n, L, V): the logits the target reads."""
        inputs, places = self._batch(chunk, target)
        with torch.inference_mode():
            logits = wide(self.backend.forward(inputs))
            self.refuse_nan(logits, inputs)
            return self._pick(logits, places, inputs, target)

    def _batch(self, chunk: list[InputRow], target: Target) -> tuple[Inputs, Tensor | None]:
        special = self.backend.special_id
        start = special("decoder_start") if self.kind == "encoder-decoder" else None
        return batch(chunk, target, self.kind, special("pad") or 0, start)

    def _pick(self, logits: Tensor, places: Tensor | None, inputs: Inputs, target: Target) -> Tensor:
        return pick(logits, places, inputs.keep_positions, target)

    def refuse_nan(self, logits: Tensor, inputs: Inputs) -> None:
        if not bool(logits.isnan().any()):
            return
        layer = self.backend.find_nan(inputs)
        raise HeedfulError(
            f"{self.name} answers NaN for this text",
            f"the first layer whose output holds a NaN is {layer}" if layer else "no layer could be blamed",
            "Check the weights, and the dtype: half precision overflows easily",
        )

    def inputs(self, x: Encoded, target: Target) -> Inputs:
        """What a trace reads: the text up to the target's position, and a continuation that is scored."""
        stop = len(x) if target.position is None else target.position
        return self._batch([operators.removed(x, stop, set(), "delete", None)], target)[0]

    # --- trace -------------------------------------------------------------------------------------

    def trace(self, x: Encoded, target: Target, hidden: bool = False) -> Trace:
        """One forward + backward. Scores of later tokens than the target's position are not in the graph."""
        stop = len(x) if target.position is None else target.position
        row = operators.removed(x, stop, set(), "delete", None)
        with self._counted_pass([row], target), torch.inference_mode(False), torch.enable_grad():
            inputs, places = self._batch([row], target)
            out = self.backend.traced(inputs, hidden=hidden)
            logits = wide(out.logits)
            self.refuse_nan(logits, inputs)
            score = target.score(self._pick(logits, places, inputs, target))[0]
            grads = gradients(score, out)
        if len(target.sides) > 1:
            shared = 1 if self.kind == "encoder-decoder" else len(row)
            lengths = [shared + len(side.written) for side in target.sides]
            out = joined(out, shared, lengths, summed=False)
            grads = joined(grads, shared, lengths, summed=True)
        return as_trace(x, target, score, out, grads, hidden, self.written(target))

    def attention_only(self, x: Encoded, target: Target | None = None) -> AttentionOutput:
        """Attention weights of the whole text, and of what the target says was written; no gradients."""
        probe = target or Target("token" if self.kind in GENERATORS else "class")
        row = operators.removed(x, len(x), set(), "delete", None)
        with self.meter.counted(forwards=1, unique=1, tokens=self._tokens([row], probe)):
            inputs = self._batch([row], probe)[0]
            found = self.backend.attention_only(inputs)
        for maps in (*found.attentions, *found.cross, *found.decoder_attentions):
            self.refuse_nan(maps, inputs)
        return alone(found)

    def lookup(self, x: Encoded, target: Target, replaced: Sequence[int] = (), by: str = "") -> Tensor:
        """(T, d) embeddings of the tokens, those in `replaced` by the token (or mean embedding) `by`."""
        inputs, _ = self._batch([self._replaced(x, replaced, by)], Target("token"))  # the text alone
        with torch.inference_mode(False), torch.no_grad():
            return self.backend.lookup(inputs)[0]

    def lookup_written(self, target: Target, replaced: Sequence[int] = (), by: str = "") -> Tensor:
        """(W, d) the same of what was written, as the model reads it after a text."""
        written = self.written(target)
        assert written is not None
        if self.kind != "encoder-decoder":
            return self.lookup(written, target, replaced, by)
        row = self._replaced(written, replaced, by)
        with torch.inference_mode(False), torch.no_grad():
            return self._decoder_lookup(torch.tensor([row.ids]), row.blank)[0]

    def _decoder_lookup(self, ids: Tensor, blank: Sequence[int] = ()) -> Tensor:
        embeds: Tensor = self.backend.lookup_written(ids, blank)  # type: ignore[attr-defined]
        return embeds

    def _replaced(self, x: Encoded, replaced: Sequence[int], by: str) -> InputRow:
        filler = None if by == "mean" or not replaced else self.backend.special_id(by)
        if replaced and by != "mean" and filler is None:
            raise HeedfulError(f"{self.name} has no {by} token", fix="Use the baseline mean or zero")
        if replaced:
            removal_record.record(by)
        return operators.removed(x, len(x), set(replaced), "mean" if filler is None else "mask", filler)

    def gradients(self, x: Encoded, target: Target, embeds: Tensor) -> tuple[Tensor, Tensor]:
        """Target value (n,) and its gradient (n, T, d) at n points (n, T, d) in embedding space.

        The user's own fast attention; chunks of rows, since a graph takes memory, halved when it runs out.
        Tokens after the target's position get zero gradients. Behind the text, points may hold the W tokens
        that were written, (n, T + W, d); a continuation that is in no point keeps its own embeddings.
        """
        stop = len(x) if target.position is None else target.position
        row = operators.removed(x, stop, set(), "delete", None)
        if embeds.shape[1] > len(x):
            stop = embeds.shape[1]
        fits = passes.CHUNK_TOKENS // (len(row) * len(target.sides))
        queue = torch.split(embeds[:, :stop], 1 if self.backend.one_row_at_a_time else max(1, fits))
        parts = [
            found
            for _, found in passes.run_with_oom_retry(queue, lambda part: self._graded(row, target, part))
        ]
        values = torch.cat([value for value, _ in parts])
        grads = torch.cat([grad for _, grad in parts])
        return values, torch.nn.functional.pad(grads, (0, 0, 0, max(0, len(x) - stop)))

    def _graded(self, row: InputRow, target: Target, embeds: Tensor) -> tuple[Tensor, Tensor]:
        """(n,) and (n, T, d) at the points (n, T, d) of one chunk; T counts what was written, if it is in."""
        rows, sides = [row] * len(embeds), len(target.sides)
        two_stacks = self.kind == "encoder-decoder"
        text, behind = torch.tensor_split(embeds, [len(row)], 1) if two_stacks else (embeds, embeds[:, :0])
        with self._counted_pass(rows, target), torch.inference_mode(False), torch.enable_grad():
            inputs, places = self._batch(rows, target)
            tail = self.backend.lookup(inputs)[:, text.shape[1] :]
            inputs = replace(inputs, embeds=torch.cat([text.repeat(sides, 1, 1), tail], 1))
            own = []
            if behind.shape[1]:
                assert inputs.answer is not None
                own = [behind.detach().clone().requires_grad_(True)]
                answer = torch.cat([self._decoder_lookup(inputs.answer[:, :1]), *own], 1)
                inputs = replace(inputs, answer_embeds=answer)
            logits, leaf = self.backend.forward_with_grad(inputs)
            logits = wide(logits)
            self.refuse_nan(logits, inputs)
            values = target.score(self._pick(logits, places, inputs, target))
            grads, *more = torch.autograd.grad(values.sum(), [leaf, *own])
        each = grads[:, : text.shape[1]].reshape(sides, *text.shape)  # one text, read by each side
        return values.detach().double(), torch.cat([each.sum(0), *more], 1)

    def _counted_pass(self, rows: Sequence[InputRow], target: Target) -> AbstractContextManager[None]:
        """A forward and backward of each row."""
        count, tokens = len(rows), self._tokens(rows, target)
        return self.meter.counted(forwards=count, backwards=count, unique=count, tokens=tokens)

    def attending(self, edit: Edit) -> AbstractContextManager[None]:
        """Inside the block `edit` reads and changes every head; see heedful.models.attention_hooks."""
        return self.backend.attending(edit)

    # --- generation --------------------------------------------------------------------------------

    def generate(self, prompt: Any, strategy: str = "greedy", **options: Any) -> str:
        """The continuation of a prompt; strategies are in heedful.models.generation_options."""
        if "generate" not in self.capabilities:
            raise HeedfulError(
                f"{self.name} cannot write text", f"it is a {self.kind}", "Use a language model"
            )
        settings = {"max_new_tokens": 40} | {name: v for name, v in options.items() if v is not None}
        ids = self.answer(self.encode(prompt), strategy=strategy, **settings)
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def require_room(self, x: Encoded, more: int) -> None:
        """Refuse to write more than the window holds."""
        if self.kind == "causal-lm" and self.window is not None and len(x) + more > self.window:
            raise HeedfulError(
                f"the prompt has {len(x):,} tokens and {more:,} more were asked for",
                f"the model reads at most {self.window:,}",
                f"Ask for at most {self.window - len(x):,}, or shorten the prompt",
            )


def wide(logits: Tensor) -> Tensor:
    """At least float32: half precision is too coarse for sums of log-probabilities."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
