"""A model that reads tokens: `TextInput` in, one number per row out. Works over any `Backend`.

trace    one forward + backward of the user's own model: embeddings, attention weights, gradients of both
values   many masked rows, through the engine of heedful.models.passes

What is read, and how rows are made, is heedful.models.token_reader.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Masks, Model
from heedful.core.progress import Progress
from heedful.core.target import Target
from heedful.core.trace import Trace
from heedful.modalities.operators import InputRow
from heedful.modalities.text import TextInput, text_of
from heedful.models import passes, targets
from heedful.models.attention_hooks import Edit
from heedful.models.backend import AttentionOutput, Inputs, TraceOutput
from heedful.models.batch import pick
from heedful.models.contrast_pass import joined
from heedful.models.head_outputs import ranked, shares_of
from heedful.models.prefix_cache import SharedPrefix, after
from heedful.models.token_reader import GENERATORS, TokenReader
from heedful.models.trace_pass import alone, as_trace, gradients
from heedful.models.value_zeroing import value_maps


class TokenModel(TokenReader):
    """A transformer with a tokenizer as a heedful model (see `heedful.core.model.Model`)."""

    @property
    def capabilities(self) -> frozenset[str]:
        return self.backend.offers()

    def facts(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "labels": list(self.labels), "window": self.window} | (
            self.backend.facts()
        )

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
                    "a position in the text is not a position in what the model writes",
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

    def answer(self, x: Input, max_new_tokens: int = 32, **options: Any) -> list[int]:
        """Ids of what the model writes after the text, greedily unless a strategy is named."""
        x = text_of(x)
        self.require_room(x, max_new_tokens)
        inputs = Inputs(torch.tensor([x.ids]), torch.ones(1, len(x), dtype=torch.long))
        try:
            return self.backend.generate(inputs, max_new_tokens=max_new_tokens, **options)
        except FloatingPointError:
            self.refuse_nan(torch.tensor(torch.nan), inputs)
            raise

    def predict(self, x: Input, k: int = 5, given: Sequence[int] = ()) -> list[tuple[str, float]]:
        """Labels (next tokens after the text and the tokens `given`) with probabilities, highest first;
        values for regression."""
        return self.ranked(self._next_logits(text_of(x), given), k)

    def ranked(self, logits: Tensor, k: int) -> list[tuple[str, float]]:
        """The same from logits (C,) or (V,)."""
        name = (lambda i: self.decode([i])) if self.kind in GENERATORS else self.labels.__getitem__
        return ranked(self.kind, shares_of(self.kind, logits), k, name)

    def logits(self, x: TextInput | Sequence[int]) -> Tensor:
        """Logits of one input: (C,) for classifiers, (V,) of the next token for language models."""
        return self._next_logits(x, ())

    def _next_logits(self, x: TextInput | Sequence[int], given: Sequence[int]) -> Tensor:
        row = InputRow(x.ids, x.type_ids) if isinstance(x, TextInput) else InputRow(tuple(x))
        probe = Target(kind="token" if self.kind in GENERATORS else "class", given=tuple(given))
        return self.answers([self.never_empty(row)], probe)[0]

    # --- rows --------------------------------------------------------------------------------------

    def values(
        self,
        x: Input,
        target: Target,
        keep: Masks,
        operator: str | None = None,
        unit: str = "",
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

    def _prefix(self, ids: Sequence[int]) -> SharedPrefix | None:
        """What rows that begin like the text need not read again; see heedful.models.prefix_cache."""
        if self.kind != "causal-lm" or len(ids) < 2 * passes.PREFIX_BLOCK_TOKENS:
            return None
        return SharedPrefix(ids, self.backend, self.meter) if self.backend.shares_prefixes else None

    def _run(self, chunk: list[InputRow], target: Target, prefix: SharedPrefix | None = None) -> Floats:
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

    def _continued_logits(
        self, chunk: list[InputRow], target: Target, prefix: SharedPrefix, shared: int
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

    def refuse_nan(self, logits: Tensor, inputs: Inputs) -> None:
        if not bool(logits.isnan().any()):
            return
        layer = self.backend.find_nan(inputs)
        raise HeedfulError(
            f"{self.name} answers NaN for this text",
            f"the first layer whose output contains a NaN is {layer}"
            if layer
            else "no single layer is the cause",
            "Check the weights, and the dtype: half precision overflows easily",
        )

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
            return self.backend.lookup(inputs)[0].detach()  # training hooks may ask for gradients

    def lookup_written(self, target: Target, replaced: Sequence[int] = (), by: str = "") -> Tensor:
        """(W, d) the same of what was written, as the model reads it after a text."""
        written = self.written(target)
        assert written is not None
        if self.kind != "encoder-decoder":
            return self.lookup(written, target, replaced, by)
        row = self._replaced(written, replaced, by)
        with torch.inference_mode(False), torch.no_grad():
            return self.backend.lookup_written(torch.tensor([row.ids]), row.blank)[0].detach()

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


def token_model(model: Model, task: str = "this") -> TokenModel:
    """A model that reads tokens, or a sentence that says what it is instead."""
    if isinstance(model, TokenModel):
        return model
    inside = "it reads pictures" if "picture" in model.capabilities else "nothing inside it is shown"
    raise HeedfulError(f"{task} needs a model that reads tokens", f"{model.name} is a {model.kind}: {inside}")


def wide(logits: Tensor) -> Tensor:
    """At least float32: half precision is too coarse for sums of log-probabilities."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
