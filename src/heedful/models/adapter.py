"""A model that reads tokens: `TextInput` in, one number per row out. Works over any `Backend`.

trace    one forward + backward of the user's own model: embeddings, attention weights, gradients of both
values   many masked rows, through the engine of heedful.models.passes
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.core import removal_record
from heedful.core.arrays import Floats
from heedful.core.cost import Meter
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Masks, Model
from heedful.core.progress import Progress
from heedful.core.target import Target
from heedful.core.trace import Trace
from heedful.modalities import encode as encoding
from heedful.modalities.operators import OPERATORS, InputRow, RowRequest, Swaps, checked, whole
from heedful.modalities.swap_words import current_words
from heedful.modalities.text import TextInput, text_of
from heedful.models import passes, targets
from heedful.models.attention_hooks import Edit
from heedful.models.backend import AttentionOutput, Backend, Inputs, TraceOutput
from heedful.models.batch import batch, pick, tail_of
from heedful.models.contrast_pass import joined
from heedful.models.prefix_cache import Begun, after
from heedful.models.swap_tokens import fitted, swaps
from heedful.models.token_pieces import pieces_of, spelled
from heedful.models.trace_pass import alone, as_trace, gradients
from heedful.models.value_zeroing import value_maps
from heedful.models.written_text import decoder_text, extended, written_text

GENERATORS = ("causal-lm", "encoder-decoder")


class TokenModel(Model):
    """A transformer behind one door; see heedful.core.model.Model."""

    def __init__(self, backend: Backend, tokenizer: Any) -> None:
        encoding.require_fast(tokenizer)
        self.backend, self.tokenizer = backend, tokenizer
        self.name, self.kind, self.window = backend.name, backend.kind, backend.window
        self.meter = Meter()

    @property
    def labels(self) -> tuple[str, ...]:
        return self.backend.labels

    @property
    def module(self) -> nn.Module:
        """The user's own module."""
        return self.backend.module

    @property
    def token_table(self) -> nn.Module | None:
        """The module that looks up the tokens of the text, if one is known."""
        return self.backend.token_table

    @property
    def capabilities(self) -> frozenset[str]:
        return self.backend.offers()

    @cached_property
    def operators(self) -> tuple[str, ...]:
        """What this tokenizer has a token for and the model a table for, the default first."""
        lacks = {each.name for each in OPERATORS.values() if each.filler and self._filler(each.name) is None}
        lacks |= set() if self.backend.has_mean else {"mean"}
        return tuple(name for name in OPERATORS if name not in lacks)

    def facts(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "labels": list(self.labels), "window": self.window} | (
            self.backend.facts()
        )

    def encode(self, raw: Any, long: str = "error") -> TextInput:
        """A string, a pair of strings or chat messages; what is encoded already comes back as it is."""
        if isinstance(raw, Input):
            return text_of(raw)
        keep = "end" if self.kind == "causal-lm" else "start"
        if long == "window" and self.kind in GENERATORS:
            raise HeedfulError(
                f"windows do not suit a {self.kind}",
                "what it writes depends on the text only as far as the window reaches",
                f"Use long='truncate', which keeps the {keep}",
            )
        most = self.window if long == "error" else None
        return encoding.fit(encoding.encode(self.tokenizer, raw, most), self.window, long, keep=keep)

    # --- targets -----------------------------------------------------------------------------------

    def target(self, x: Input, spec: Any = None) -> Target:
        if isinstance(spec, Target):
            return spec
        x = text_of(x)
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
        chosen = targets.for_generator(
            spec,
            x,
            self.token_ids,
            self.decode,
            lambda given: int(self._next_logits(x, given).argmax()),
            self.backend.vocabulary,
        )
        self._check_fits(x, chosen)
        return chosen

    def _check_fits(self, x: TextInput, target: Target) -> None:
        """A continuation is read too, all but its last token."""
        read, written = len(x) if self.kind == "causal-lm" else 1, max(len(s.written) for s in target.sides)
        if self.window is not None and read + written > self.window:
            raise HeedfulError(
                f"the text has {len(x):,} tokens and the continuation {written + 1:,}",
                f"the model reads at most {self.window:,}",
                "Explain a shorter continuation",
            )

    # --- tokens ------------------------------------------------------------------------------------

    def token_ids(self, text: str, special: bool = False) -> list[int]:
        """Ids of a text by itself, with or without the special tokens that are put around it."""
        return list(self.tokenizer(text, add_special_tokens=special, verbose=False)["input_ids"])

    def encode_whole(self, raw: Any) -> TextInput:
        """As `encode`, however long it is."""
        return encoding.encode(self.tokenizer, raw)

    def encode_many(self, texts: Sequence[str], most: int) -> Mapping[str, list[list[int]]]:
        """Ids, special-token marks and type ids of many texts at once, each cut to `most` tokens."""
        results: Mapping[str, list[list[int]]] = self.tokenizer(
            list(texts), truncation=True, max_length=most, return_special_tokens_mask=True, verbose=False
        )
        return results

    def padded_texts(self, texts: Sequence[str]) -> Inputs:
        """Whole texts as one batch."""
        result = self.tokenizer(list(texts), padding=True, return_tensors="pt", verbose=False)
        return Inputs(result["input_ids"], result["attention_mask"], result.get("token_type_ids"))

    @property
    def token_count(self) -> int:
        """How many tokens its tokenizer knows."""
        return len(self.tokenizer)

    @property
    def has_chat_template(self) -> bool:
        return bool(getattr(self.tokenizer, "chat_template", None))

    def extended(self, x: TextInput, ids: Sequence[int]) -> TextInput:
        """The text with these tokens behind it, as one text."""
        return extended(self.tokenizer, x, ids)

    def decoder_text(self, ids: Sequence[int]) -> TextInput:
        """What a decoder reads, its start token first, as a text."""
        return decoder_text(self.tokenizer, ids)

    def pieces(self, ids: Sequence[int], known: dict[int, str] | None = None) -> tuple[str, ...]:
        """The characters of each token of a context; `known` remembers tokens from call to call."""
        return pieces_of(self.tokenizer, ids, known)

    def spelled(self, token: int) -> str:
        """One token by itself; bytes that are no character as <0xE2>."""
        return spelled(self.tokenizer, token)

    def ordinary_tokens(self) -> list[int]:
        """Ids that can stand in a text: no special or added tokens, and only those the model has a vector
        for."""
        added = {*self.tokenizer.all_special_ids, *getattr(self.tokenizer, "added_tokens_decoder", {})}
        return [i for i in range(min(len(self.tokenizer), self.backend.vocabulary)) if i not in added]

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=skip_special))

    def special_id(self, name: str) -> int | None:
        return self.backend.special_id(name)

    def answer(self, x: Input, max_new_tokens: int = 32, **options: Any) -> list[int]:
        """Ids of what the model writes after the text, greedily unless a strategy is named."""
        x = text_of(x)
        self.require_room(x, max_new_tokens)
        inputs = Inputs(torch.tensor([x.ids]), torch.ones(1, len(x), dtype=torch.long))
        return self.backend.generate(inputs, max_new_tokens=max_new_tokens, **options)

    def predict(self, x: Input, k: int = 5, given: Sequence[int] = ()) -> list[tuple[str, float]]:
        """Labels (next tokens after the text and the tokens `given`) with probabilities, highest first;
        values for regression."""
        return self.ranked(self._next_logits(text_of(x), given), k)

    def ranked(self, logits: Tensor, k: int) -> list[tuple[str, float]]:
        """The same from logits (C,) or (V,)."""
        if self.kind == "regression":
            return [(label, float(value)) for label, value in zip(self.labels, logits, strict=True)]
        shares = logits.sigmoid() if self.kind == "multi-label" else logits.softmax(-1)
        top = shares.topk(min(k, len(shares)))
        name = (lambda i: self.decode([i])) if self.kind in GENERATORS else self.labels.__getitem__
        return list(zip(map(name, top.indices.tolist()), top.values.tolist(), strict=True))

    def logits(self, x: TextInput | Sequence[int]) -> Tensor:
        """Logits of one input: (C,) for classifiers, (V,) of the next token for language models."""
        return self._next_logits(x, ())

    def _next_logits(self, x: TextInput | Sequence[int], given: Sequence[int]) -> Tensor:
        row = InputRow(x.ids, x.type_ids) if isinstance(x, TextInput) else InputRow(tuple(x))
        probe = Target(kind="token" if self.kind in GENERATORS else "class", given=tuple(given))
        return self.answers([self.never_empty(row)], probe)[0]

    def written(self, target: Target) -> TextInput | None:
        """What was written before the token that is explained; None: nothing, or the target is a sequence,
        whose written tokens are themselves explained."""
        return written_text(self.tokenizer, target.given) if target.given else None

    # --- rows --------------------------------------------------------------------------------------

    def values(
        self,
        x: Input,
        target: Target,
        keep: Masks,
        operator: str | None = None,
        unit: str = "word",
        progress: Progress | None = None,
        cache: passes.RowCache | None = None,
    ) -> Floats:
        """Target value of each row of `keep` (n, d), d = number of units of x, or of x and what was written;
        see heedful.models.passes."""
        x = text_of(x)
        inputs = self.rows(x, target, keep, operator, unit)
        prefix = self._prefix(x.ids[: self._stop(x, target)])
        values, _ = passes.evaluate(
            inputs,
            lambda chunk: self._run(chunk, target, prefix),
            memory=cache,
            most=self.rows_at_once,
            progress=progress,
            prefix=prefix,
            copies=len(target.sides),
        )
        self.meter.forwards += len(inputs)
        return values

    def rows(
        self, x: Input, target: Target, keep: Masks, operator: str | None = None, unit: str = "word"
    ) -> list[InputRow]:
        """The model input of each row of `keep`."""
        x, written = text_of(x), self.written(target)
        keep, operator, units = checked(x, keep, operator, unit, self.operators, written)
        remove = self._remover(x, self._stop(x, target), operator, partial(self._swaps, x, target, unit))
        gone = [{t for d in np.flatnonzero(~row).tolist() for t in units[d]} for row in keep]
        inputs = [self.never_empty(remove(atoms)) for atoms in gone]
        if written is not None and units.atoms > len(x):  # masks reach over what was written, too
            part = self._remover(written, len(written), operator, partial(self._written_swaps, written, unit))
            behind = [{t - len(x) for t in atoms if t >= len(x)} for atoms in gone]
            inputs = [
                replace(row, written=part(atoms)) if atoms else row
                for row, atoms in zip(inputs, behind, strict=True)
            ]
        return inputs

    @staticmethod
    def _stop(x: TextInput, target: Target) -> int:
        """How many tokens of the text the target is read from."""
        return len(x) if target.position is None else target.position

    @property
    def rows_at_once(self) -> int | None:
        """1 where the model cannot tell padding from text, so that no two rows may run together."""
        return 1 if self.backend.one_row_at_a_time else None

    def rows_that_fit(self, length: int, tokens: int = passes.CHUNK_TOKENS) -> int:
        """How many rows of one length a pass may read."""
        return self.rows_at_once or max(1, tokens // length)

    def _remover(
        self, x: TextInput, stop: int, operator: str, swaps: Callable[[], Swaps]
    ) -> Callable[[set[int]], InputRow]:
        """(positions) -> the row without them; `swaps` gives the words of the operator "swap"."""
        new, filler = swaps() if operator == "swap" else None, self._filler(operator)
        return lambda gone: OPERATORS[operator].remove(RowRequest(x, stop, gone, filler, new))

    def _written_swaps(self, written: TextInput, unit: str) -> Swaps:
        """The same of what was written; none longer than its unit, so that there is room for it."""
        groups = written.units(unit)
        new = fitted(swaps(self.tokenizer, written, unit, current_words()), groups, 0)
        return {group[0]: ids for group, ids in zip(groups, new, strict=True)}

    def _swaps(self, x: TextInput, target: Target, unit: str) -> Swaps:
        """By a unit's first token, the ids of the words that stand for the unit; all rows use the same."""
        groups = x.units(unit)
        written = max(len(side.written) for side in target.sides) if self.kind == "causal-lm" else 0
        room = None if self.window is None else self.window - len(x) - written
        new = fitted(swaps(self.tokenizer, x, unit, current_words()), groups, room)
        return {group[0]: ids for group, ids in zip(groups, new, strict=True)}

    def _filler(self, operator: str) -> int | None:
        if not OPERATORS[operator].filler:
            return None
        if operator == "unk" and not encoding.knows_unknown_words(self.tokenizer):
            return None
        return self.backend.special_id(operator)

    def never_empty(self, row: InputRow) -> InputRow:
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
        return Begun(ids, self.backend, self.meter) if self.backend.shares_prefixes else None

    def _run(self, chunk: list[InputRow], target: Target, prefix: Begun | None = None) -> Floats:
        """Counted as it is run, so that the count is right after an interruption, too."""
        logits = None
        if prefix is not None and (shared := prefix.of(chunk[0])):
            prefix.read()
            with self.meter.counted(tokens=self.tokens_read(chunk, target, shared)):
                logits = self._continued_logits(chunk, target, prefix, shared)
        if logits is None:
            with self.meter.counted(tokens=self.tokens_read(chunk, target)):
                logits = self.answers(chunk, target)
        with self.meter.counted(unique=len(chunk)):
            return target.score(logits).double().cpu().numpy()

    def tokens_read(self, chunk: Sequence[InputRow], target: Target, shared: int = 0) -> int:
        """How many the model reads: of each row what is not `shared`, and what was written after it."""
        return sum(len(row) - shared + len(tail_of(row, side)) for row in chunk for side in target.sides)

    def _continued_logits(
        self, chunk: list[InputRow], target: Target, prefix: Begun, shared: int
    ) -> Tensor | None:
        """The logits the target reads, the first `shared` tokens read before; None if they hold a NaN."""
        inputs, places = after(*self.batch(chunk, target), shared)
        with torch.inference_mode():
            logits = wide(prefix.forward(inputs, shared))
            return None if bool(logits.isnan().any()) else pick(logits, places, inputs.keep_positions, target)

    def answers(self, chunk: Sequence[InputRow], target: Target, graph: bool = False) -> Tensor:
        """(n, C), (n, V) or (n, L, V): the logits the target reads, of one pass; not counted."""
        inputs, places = self.batch(chunk, target)
        with nullcontext() if graph else torch.inference_mode():
            return pick(self.forward(inputs), places, inputs.keep_positions, target)

    def run_pass(
        self,
        chunk: Sequence[InputRow],
        numbers: Sequence[int],
        target: Target | None = None,
        want: Collection[str] = ("logits",),
    ) -> passes.Pass:
        """One pass of heedful.models.passes, counted; with a graph where gradients are on."""
        graph = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        probe = target or Target("sequence" if self.kind == "encoder-decoder" else "class")
        counts = {"forwards": len(chunk), "backwards": len(chunk) * graph, "unique": len(chunk)}
        with (
            self.meter.counted(**counts, tokens=self.tokens_read(chunk, probe)),
            torch.inference_mode(False),  # which turns gradients on
            nullcontext() if graph else torch.no_grad(),
        ):
            inputs, places = self.batch(chunk, probe)
            if target is None:
                inputs, places = replace(inputs, keep_positions=None), None
            if "attentions" not in want:
                logits = pick(self.forward(inputs), places, inputs.keep_positions, probe)
                return passes.Pass(tuple(numbers), logits)
            if "logits" not in want:
                only = self.backend.attention_only(inputs)
                return passes.Pass(tuple(numbers), None, only.attentions, only.notes)
            out = self.backend.traced(inputs)
            logits = wide(out.logits)
            self.refuse_nan(logits, inputs)
            logits = pick(logits, places, inputs.keep_positions, probe)
            return passes.Pass(tuple(numbers), logits, out.attentions, out.notes)

    def forward(self, inputs: Inputs) -> Tensor:
        """Logits of one pass, at least float32, none of them NaN; not counted."""
        logits = wide(self.backend.forward(inputs))
        self.refuse_nan(logits, inputs)
        return logits

    def forward_with_grad(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Logits as `forward` gives them, with a graph from the embeddings (B, T, d) on, and those; not
        counted."""
        logits, embeds = self.backend.forward_with_grad(inputs)
        self.refuse_nan(logits, inputs)
        return wide(logits), embeds

    def traced(self, inputs: Inputs) -> TraceOutput:
        """A pass with a graph from embeddings and attention weights to the logits; not counted."""
        return self.backend.traced(inputs)

    def raw_pass(self, inputs: Inputs) -> Any:
        """What the module itself returns, in its own mode, dropout included; not counted."""
        return self.backend.runner(inputs)()

    def batch(self, chunk: Sequence[InputRow], target: Target) -> tuple[Inputs, Tensor | None]:
        """Rows as one padded batch, and where the logits are that the target reads."""
        start = self.special_id("decoder_start") if self.kind == "encoder-decoder" else None
        return batch(chunk, target, self.kind, self.special_id("pad") or 0, start)

    def padded(self, ids: Tensor, mask: Tensor | None = None, types: Tensor | None = None) -> Inputs:
        """Texts that are tensors already, (B, T). An encoder-decoder is given its start token to write after:
        it must read something, and what it says is not looked at."""
        answer = None
        if self.kind == "encoder-decoder":
            answer = torch.full((len(ids), 1), self.special_id("decoder_start") or 0)
        return Inputs(ids, torch.ones_like(ids) if mask is None else mask, types, answer)

    def refuse_nan(self, logits: Tensor, inputs: Inputs) -> None:
        if not bool(logits.isnan().any()):
            return
        layer = self.backend.find_nan(inputs)
        raise HeedfulError(
            f"{self.name} answers NaN for this text",
            f"the first layer whose output holds a NaN is {layer}" if layer else "no layer could be blamed",
            "Check the weights, and the dtype: half precision overflows easily",
        )

    def inputs(self, x: Input, target: Target) -> Inputs:
        """What a trace reads: the text up to the target's position, and a continuation that is scored."""
        return self.batch([self.row(x, target)], target)[0]

    def row(self, x: Input, target: Target) -> InputRow:
        """The text up to the target's position, nothing removed."""
        x = text_of(x)
        return whole(x, self._stop(x, target))

    # --- trace -------------------------------------------------------------------------------------

    def trace(self, x: Input, target: Target, hidden: bool = False) -> Trace:
        """One forward + backward. Scores of later tokens than the target's position are not in the graph."""
        row = self.row(x, target)
        with self.counted_pass([row], target), torch.inference_mode(False), torch.enable_grad():
            inputs, places = self.batch([row], target)
            out = self.backend.traced(inputs, hidden=hidden)
            logits = wide(out.logits)
            self.refuse_nan(logits, inputs)
            score = target.score(pick(logits, places, inputs.keep_positions, target))[0]
            grads = gradients(score, out)
        if len(target.sides) > 1:
            shared = 1 if self.kind == "encoder-decoder" else len(row)
            lengths = [shared + len(side.written) for side in target.sides]
            out = joined(out, shared, lengths, summed=False)
            grads = joined(grads, shared, lengths, summed=True)
        return as_trace(text_of(x), target, score, out, grads, hidden, self.written(target))

    def attention_only(self, x: Input, target: Target | None = None) -> AttentionOutput:
        """Attention weights of the whole text, and of what the target says was written; no gradients."""
        probe = target or Target("token" if self.kind in GENERATORS else "class")
        row = self.row(x, replace(probe, position=None))
        with self.meter.counted(forwards=1, unique=1, tokens=self.tokens_read([row], probe)):
            inputs = self.batch([row], probe)[0]
            result = self.backend.attention_only(inputs)
        for maps in (*result.attentions, *result.cross, *result.decoder_attentions):
            self.refuse_nan(maps, inputs)
        return alone(result)

    def value_maps(self, x: Input, target: Target, layers: int) -> list[Tensor]:
        """(N, N) per layer, N the tokens that are read; see heedful.models.value_zeroing."""
        inputs = self.inputs(x, target)
        length = inputs.ids.shape[1]
        with self.meter.counted(forwards=length + 1, unique=length + 1, tokens=length * (length + 1)):
            return value_maps(self.module, self.backend.runner(inputs), layers)

    def relevances(self, x: Input, target: Target) -> tuple[Tensor, ...]:
        """(H, T, T) per layer, by the rules of heedful.models.relevance_rules."""
        inputs = self.inputs(x, target)
        with self.meter.counted(forwards=1, backwards=1, unique=1, tokens=len(x)):
            return self.backend.relevances(inputs, lambda logits: target.score(logits)[0])

    def lookup(self, x: Input, target: Target, replaced: Sequence[int] = (), by: str = "") -> Tensor:
        """(T, d) embeddings of the tokens, those in `replaced` by the token (or mean embedding) `by`."""
        inputs, _ = self.batch([self._replaced(text_of(x), replaced, by)], Target("token"))  # the text alone
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
            return self.backend.lookup_written(torch.tensor([row.ids]), row.blank)[0]

    def _replaced(self, x: TextInput, replaced: Sequence[int], by: str) -> InputRow:
        filler = None if by == "mean" or not replaced else self.backend.special_id(by)
        if replaced and by != "mean" and filler is None:
            raise HeedfulError(f"{self.name} has no {by} token", fix="Use the baseline mean or zero")
        if replaced:
            removal_record.record(by)
        remove = OPERATORS["mean" if filler is None else "mask"].remove
        return remove(RowRequest(x, len(x), set(replaced), filler))

    def gradients(self, x: Input, target: Target, embeds: Tensor) -> tuple[Tensor, Tensor]:
        """Target value (n,) and its gradient (n, T, d) at n points (n, T, d) in embedding space.

        The user's own fast attention; chunks of rows, since a graph takes memory, halved when it runs out.
        Tokens after the target's position get zero gradients. Behind the text, points may hold the W tokens
        that were written, (n, T + W, d); a continuation that is in no point keeps its own embeddings.
        """
        row, stop = self.row(x, target), self._stop(text_of(x), target)
        if embeds.shape[1] > len(x):
            stop = embeds.shape[1]
        queue = torch.split(
            embeds[:, :stop], self.rows_that_fit(len(row) * len(target.sides), passes.CHUNK_TOKENS)
        )
        parts = [
            result
            for _, result in passes.run_with_oom_retry(queue, lambda part: self._graded(row, target, part))
        ]
        values = torch.cat([value for value, _ in parts])
        grads = torch.cat([grad for _, grad in parts])
        return values, torch.nn.functional.pad(grads, (0, 0, 0, max(0, len(x) - stop)))

    def _graded(self, row: InputRow, target: Target, embeds: Tensor) -> tuple[Tensor, Tensor]:
        """(n,) and (n, T, d) at the points (n, T, d) of one chunk; T counts what was written, if it is in."""
        rows, sides = [row] * len(embeds), len(target.sides)
        two_stacks = self.kind == "encoder-decoder"
        text, behind = torch.tensor_split(embeds, [len(row)], 1) if two_stacks else (embeds, embeds[:, :0])
        with self.counted_pass(rows, target), torch.inference_mode(False), torch.enable_grad():
            inputs, places = self.batch(rows, target)
            tail = self.backend.lookup(inputs)[:, text.shape[1] :]
            inputs = replace(inputs, embeds=torch.cat([text.repeat(sides, 1, 1), tail], 1))
            own = []
            if behind.shape[1]:
                assert inputs.answer is not None
                own = [behind.detach().clone().requires_grad_(True)]
                answer = torch.cat([self.backend.lookup_written(inputs.answer[:, :1]), *own], 1)
                inputs = replace(inputs, answer_embeds=answer)
            logits, leaf = self.backend.forward_with_grad(inputs)
            logits = wide(logits)
            self.refuse_nan(logits, inputs)
            values = target.score(pick(logits, places, inputs.keep_positions, target))
            grads, *more = torch.autograd.grad(values.sum(), [leaf, *own])
        each = grads[:, : text.shape[1]].reshape(sides, *text.shape)  # one text, read by each side
        return values.detach().double(), torch.cat([each.sum(0), *more], 1)

    def counted_pass(self, rows: Sequence[InputRow], target: Target) -> AbstractContextManager[None]:
        """A forward and backward of each row."""
        count, tokens = len(rows), self.tokens_read(rows, target)
        return self.meter.counted(forwards=count, backwards=count, unique=count, tokens=tokens)

    def attending(self, edit: Edit) -> AbstractContextManager[None]:
        """Inside the block `edit` reads and changes every head; see heedful.models.attention_hooks."""
        return self.backend.attending(edit)

    # --- generation --------------------------------------------------------------------------------

    def generate(self, prompt: Any, strategy: str = "greedy", **options: Any) -> str:
        """The continuation of a prompt; strategies are in heedful.models.generation_options."""
        if "generate" not in self.capabilities:
            return super().generate(prompt)  # refuses
        settings = {"max_new_tokens": 40} | {name: v for name, v in options.items() if v is not None}
        ids = self.answer(self.encode(prompt), strategy=strategy, **settings)
        return self.decode(ids, skip_special=True)

    def require_room(self, x: TextInput, more: int) -> None:
        """Refuse to write more than the window holds."""
        if self.kind == "causal-lm" and self.window is not None and len(x) + more > self.window:
            raise HeedfulError(
                f"the prompt has {len(x):,} tokens and {more:,} more were asked for",
                f"the model reads at most {self.window:,}",
                f"Ask for at most {self.window - len(x):,}, or shorten the prompt",
            )


def token_model(model: Model, task: str = "this") -> TokenModel:
    """A model that reads tokens, or a sentence that says what it is instead."""
    if isinstance(model, TokenModel):
        return model
    raise HeedfulError(
        f"{task} needs a model that reads tokens",
        f"{model.name} is a {model.kind}: nothing inside it is shown",
    )


def wide(logits: Tensor) -> Tensor:
    """At least float32: half precision is too coarse for sums of log-probabilities."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
