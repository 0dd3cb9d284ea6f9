"""The reading side of a model of tokens: texts to ids and back, rows with units removed, padded batches.

Nothing is run here; heedful.models.adapter runs what this makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.core import removal_record
from heedful.core.cost import Meter
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Masks, Model
from heedful.core.target import Target
from heedful.modalities import encode as encoding
from heedful.modalities.operators import OPERATORS, InputRow, RowRequest, Swaps, checked, whole
from heedful.modalities.swap_words import current_words
from heedful.modalities.text import TextInput, text_of
from heedful.modalities.tokenizer_calls import decoded, tokenized
from heedful.models import passes
from heedful.models.backend import Backend, Inputs
from heedful.models.batch import batch, tail_of
from heedful.models.spell_tokens import pieces_of, spelled
from heedful.models.swap_tokens import fitted, swaps
from heedful.models.written_text import decoder_text, extended, written_text

GENERATORS = ("causal-lm", "encoder-decoder")  # kinds of models that write text


class TokenReader(Model):
    """What a model does with its tokenizer alone."""

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

    def special_id(self, name: str) -> int | None:
        return self.backend.special_id(name)

    @property
    def rows_at_once(self) -> int | None:
        """1 where the model cannot tell padding from text, so that no two rows may run together."""
        return 1 if self.backend.one_row_at_a_time else None

    def rows_that_fit(self, length: int, tokens: int = passes.CHUNK_TOKENS) -> int:
        """How many rows of one length a pass may read."""
        return self.rows_at_once or max(1, tokens // length)

    # --- texts -------------------------------------------------------------------------------------

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
        x = encoding.fit(encoding.encode(self.tokenizer, raw, most), self.window, long, keep=keep)
        self._check_ids(x)
        return x

    @cached_property
    def _token_rows(self) -> int | None:
        """How many tokens the model knows, if it says so without being run."""
        table = getattr(self.module, "get_input_embeddings", None)
        try:
            return getattr(table() if table else None, "num_embeddings", None)
        except (AttributeError, NotImplementedError):
            return None

    def _check_ids(self, x: TextInput) -> None:
        """A tokenizer and a model that were not made for each other would fail inside the model."""
        rows = self._token_rows
        if isinstance(rows, int) and x.ids and max(x.ids) >= rows:
            token = x.tokens[x.ids.index(max(x.ids))]
            raise HeedfulError(
                f"the tokenizer of {self.name} does not fit the model",
                f"the token {token!r:.40} has the number {max(x.ids):,}, and the model knows {rows:,} tokens",
                "Use the tokenizer that the model was trained with",
            )

    def encode_whole(self, raw: Any) -> TextInput:
        """As `encode`, however long it is."""
        return encoding.encode(self.tokenizer, raw)

    def encode_many(self, texts: Sequence[str], most: int) -> Mapping[str, list[list[int]]]:
        """Ids, special-token marks and type ids of many texts at once, each cut to `most` tokens."""
        results: Mapping[str, list[list[int]]] = tokenized(
            self.tokenizer, list(texts), truncation=True, max_length=most, return_special_tokens_mask=True
        )
        return results

    def padded_texts(self, texts: Sequence[str]) -> Inputs:
        """Whole texts as one batch."""
        result = tokenized(self.tokenizer, list(texts), padding=True, return_tensors="pt")
        return Inputs(result["input_ids"], result["attention_mask"], result.get("token_type_ids"))

    def written(self, target: Target) -> TextInput | None:
        """What was written before the token that is explained; None: nothing, or the target is a sequence,
        whose written tokens are themselves explained."""
        return written_text(self.tokenizer, target.given) if target.given else None

    def extended(self, x: TextInput, ids: Sequence[int]) -> TextInput:
        """The text with these tokens behind it, as one text."""
        return extended(self.tokenizer, x, ids)

    def decoder_text(self, ids: Sequence[int]) -> TextInput:
        """What a decoder reads, its start token first, as a text."""
        return decoder_text(self.tokenizer, ids)

    # --- tokens ------------------------------------------------------------------------------------

    def token_ids(self, text: str, special: bool = False) -> list[int]:
        """Ids of a text by itself, with or without the special tokens that are put around it."""
        return list(tokenized(self.tokenizer, text, add_special_tokens=special)["input_ids"])

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        return decoded(self.tokenizer, list(ids), skip_special_tokens=skip_special)

    def pieces(self, ids: Sequence[int], known: dict[int, str] | None = None) -> tuple[str, ...]:
        """The characters of each token of a context; `known` remembers tokens from call to call."""
        return pieces_of(self.tokenizer, ids, known)

    def spelled(self, token: int) -> str:
        """One token by itself; bytes that are no character as <0xE2>."""
        return spelled(self.tokenizer, token)

    @property
    def token_count(self) -> int:
        """How many tokens its tokenizer knows."""
        return len(self.tokenizer)

    def ordinary_tokens(self) -> list[int]:
        """Ids that can stand in a text: no special or added tokens, and only those the model has a vector
        for."""
        added = {*self.tokenizer.all_special_ids, *getattr(self.tokenizer, "added_tokens_decoder", {})}
        return [i for i in range(min(len(self.tokenizer), self.backend.vocabulary)) if i not in added]

    @property
    def has_chat_template(self) -> bool:
        return bool(getattr(self.tokenizer, "chat_template", None))

    def require_room(self, x: TextInput, more: int) -> None:
        """Refuse to write more than the window holds."""
        if self.kind == "causal-lm" and self.window is not None and len(x) + more > self.window:
            raise HeedfulError(
                f"the prompt has {len(x):,} tokens and {more:,} more are wanted",
                f"the model reads at most {self.window:,}",
                f"Ask for at most {self.window - len(x):,}, or shorten the prompt",
            )

    # --- rows: the text with units removed --------------------------------------------------------------

    @cached_property
    def operators(self) -> tuple[str, ...]:
        """What this tokenizer has a token for and the model a table for, the default first."""
        lacks = {each.name for each in OPERATORS.values() if each.filler and self._filler(each.name) is None}
        lacks |= set() if self.backend.has_mean else {"mean"}
        return tuple(name for name in OPERATORS if name not in lacks)

    def rows(
        self, x: Input, target: Target, keep: Masks, operator: str | None = None, unit: str = ""
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

    def row(self, x: Input, target: Target) -> InputRow:
        """The text up to the target's position, nothing removed."""
        x = text_of(x)
        return whole(x, self._stop(x, target))

    @staticmethod
    def _stop(x: TextInput, target: Target) -> int:
        """How many tokens of the text the target is read from."""
        return len(x) if target.position is None else target.position

    def never_empty(self, row: InputRow) -> InputRow:
        """A model needs something to read: nothing left means its first token, else a blank one."""
        if len(row.hidden) < len(row):
            return row
        for name in ("bos", "eos", "mask", "unk", "pad"):
            if (begin := self.backend.special_id(name)) is not None:
                return InputRow((begin,), None if row.type_ids is None else (0,))
        raise HeedfulError("nothing is left of the text, and the tokenizer has no token for an empty text")

    def _remover(
        self, x: TextInput, stop: int, operator: str, swaps: Callable[[], Swaps]
    ) -> Callable[[set[int]], InputRow]:
        """(positions) -> the row without them; `swaps` gives the words of the operator "swap"."""
        new, filler = swaps() if operator == "swap" else None, self._filler(operator)
        return lambda gone: OPERATORS[operator].remove(RowRequest(x, stop, gone, filler, new))

    def _swaps(self, x: TextInput, target: Target, unit: str) -> Swaps:
        """By a unit's first token, the ids of the words that stand for the unit; all rows use the same."""
        groups = x.units(unit)
        written = max(len(side.written) for side in target.sides) if self.kind == "causal-lm" else 0
        room = None if self.window is None else self.window - len(x) - written
        new = fitted(swaps(self.tokenizer, x, unit, current_words()), groups, room)
        return {group[0]: ids for group, ids in zip(groups, new, strict=True)}

    def _written_swaps(self, written: TextInput, unit: str) -> Swaps:
        """The same of what was written; none longer than its unit, so that there is room for it."""
        groups = written.units(unit)
        new = fitted(swaps(self.tokenizer, written, unit, current_words()), groups, 0)
        return {group[0]: ids for group, ids in zip(groups, new, strict=True)}

    def _filler(self, operator: str) -> int | None:
        if not OPERATORS[operator].filler:
            return None
        if operator == "unk" and not encoding.knows_unknown_words(self.tokenizer):
            return None
        return self.backend.special_id(operator)

    def _replaced(self, x: TextInput, replaced: Sequence[int], by: str) -> InputRow:
        filler = None if by == "mean" or not replaced else self.backend.special_id(by)
        if replaced and by != "mean" and filler is None:
            raise HeedfulError(f"{self.name} has no {by} token", fix="Use the baseline mean or zero")
        if replaced:
            removal_record.record(by)
        remove = OPERATORS["mean" if filler is None else "mask"].remove
        return remove(RowRequest(x, len(x), set(replaced), filler))

    # --- batches -----------------------------------------------------------------------------------

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

    def inputs(self, x: Input, target: Target) -> Inputs:
        """What a trace reads: the text up to the target's position, and a continuation that is scored."""
        return self.batch([self.row(x, target)], target)[0]

    def tokens_read(self, chunk: Sequence[InputRow], target: Target, shared: int = 0) -> int:
        """How many the model reads: of each row what is not `shared`, and what was written after it."""
        return sum(len(row) - shared + len(tail_of(row, side)) for row in chunk for side in target.sides)
