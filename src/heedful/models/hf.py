"""transformers models as a backend, through four entry points only: `input_ids`, `attention_mask`, the
attention-implementation switch, and forward hooks. No list of model classes: what a model can do is probed.

Embeddings are read and replaced by a hook on the model's own input-embedding module, so models that take no
`inputs_embeds` (BART's classifier), or that find padding by `input_ids` (GPT-2's), work all the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from heedful.core.errors import HeedfulError
from heedful.modalities.tokenizer_calls import tokenized
from heedful.models.attention_hooks import Edit, Sites, attending, find_sites
from heedful.models.backend import AttentionOutput, Backend, Inputs, TraceOutput
from heedful.models.contexts import (
    EDITED,
    eager_attention,
    first_broken_layer,
    hooked,
    seeded,
    set_generation,
    untouched,
)
from heedful.models.generation_options import generation_settings, is_id
from heedful.models.guided_relu import GuidedRelu
from heedful.models.hf_config import fingerprint, kind_of, labels_of, window_of
from heedful.models.prefix_cache import after, first, plain
from heedful.models.relevance_rules import RelevanceRules, relevances
from heedful.models.run_errors import RUN_ERRORS, run_errors
from heedful.models.value_zeroing import can_zero

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class HFBackend(Backend):
    """A transformers model, bit for bit unchanged."""

    has_mean = True

    def __init__(self, model: PreTrainedModel, tokenizer: Any, name: str) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.config = model.config
        self._accepts = set(inspect.signature(model.forward).parameters)
        self.kind = kind_of(model)
        self.labels = (
            labels_of(self.config) if self.kind in ("classifier", "multi-label", "regression") else ()
        )
        self.window = window_of(model, tokenizer)
        self._refuse_other_shapes()

    def _refuse_other_shapes(self) -> None:
        """A head that scores each token, or answers questions, gives no (rows, labels) logits."""
        if not self.labels:
            return
        logits = None
        with untouched(self.model), torch.inference_mode(), suppress(HeedfulError):
            logits = getattr(self._run(**self._arguments(self._probe_inputs(1))), "logits", None)
        if logits is None or logits.shape != (1, len(self.labels)):
            raise HeedfulError(
                f"{type(self.model).__name__} is neither a sequence classifier nor a language model",
                fix="Wrap it: heedful.load(module, tokenizer=..., embed=..., forward=...)",
            )

    @cached_property
    def embedding(self) -> nn.Module:
        """The module that looks up the tokens of the text (the encoder's, where there are two)."""
        owner = self.model.get_encoder() if self.config.is_encoder_decoder else self.model
        module = owner.get_input_embeddings()
        if module is None:
            raise HeedfulError(
                f"{self.name} names no input embedding", "get_input_embeddings() gives nothing"
            )
        return module  # type: ignore[no-any-return]

    @property
    def token_table(self) -> nn.Module:
        return self.embedding

    @cached_property
    def decoder_embedding(self) -> nn.Module | None:
        """The module that looks up what an encoder-decoder has written; None for every other model."""
        if self.kind != "encoder-decoder":
            return None
        return self.model.get_decoder().get_input_embeddings()  # type: ignore[no-any-return]

    @property
    def module(self) -> nn.Module:
        module: nn.Module = self.model
        return module

    @property
    def device(self) -> torch.device:
        device: torch.device = next(self.model.parameters()).device
        return device

    @property
    def vocabulary(self) -> int:
        return int(self.embedding.num_embeddings)  # type: ignore[arg-type]

    @cached_property
    def vocabulary_mean(self) -> Tensor:
        """(d,) mean of all token embeddings, as the embedding module gives them (with its scale)."""
        return _mean(self.embedding, self.device)

    @cached_property
    def decoder_mean(self) -> Tensor:
        """(d,) the same of the decoder's."""
        assert self.decoder_embedding is not None
        return _mean(self.decoder_embedding, self.device)

    # --- passes ------------------------------------------------------------------------------------

    def _run(self, **arguments: Any) -> Any:
        with run_errors(self.name):
            return self.model(**arguments)

    def _arguments(self, inputs: Inputs, **more: Any) -> dict[str, Any]:
        wish = {
            "input_ids": inputs.ids,
            "attention_mask": inputs.mask,
            "token_type_ids": inputs.type_ids,
            "decoder_input_ids": inputs.answer,
            "decoder_attention_mask": inputs.answer_mask,
        }
        arguments: dict[str, Any] = {
            name: value.to(self.device)
            for name, value in wish.items()
            if value is not None and (name in self._accepts or name == "input_ids")
        }
        if "use_cache" in self._accepts or self.kind in ("causal-lm", "encoder-decoder"):
            more["use_cache"] = False
        if inputs.keep_positions is not None and "logits_to_keep" in self._accepts:
            more["logits_to_keep"] = torch.tensor(inputs.keep_positions, device=self.device)
        return arguments | more

    def _kept(self, logits: Tensor, inputs: Inputs) -> Tensor:
        """Only the positions asked for; a model that takes logits_to_keep gave no others."""
        if inputs.keep_positions is None or "logits_to_keep" in self._accepts:
            return logits
        return logits[:, list(inputs.keep_positions)]

    def _blanked(self, embeds: Tensor, inputs: Inputs) -> Tensor:
        return blanked(embeds, inputs.blank, lambda: self.vocabulary_mean)

    def _text(self, looked_up: Tensor, inputs: Inputs) -> Tensor:
        """What the model reads in place of the embeddings of the text."""
        return self._blanked(looked_up if inputs.embeds is None else inputs.embeds.to(looked_up), inputs)

    def _answer(self, looked_up: Tensor, inputs: Inputs) -> Tensor:
        """What the decoder reads in place of the embeddings of what was written."""
        embeds = looked_up if inputs.answer_embeds is None else inputs.answer_embeds.to(looked_up)
        return blanked(embeds, inputs.answer_blank, lambda: self.decoder_mean)

    @contextmanager
    def _embedding_hook(
        self, inputs: Inputs, leaf: list[Tensor] | None = None, answer_leaf: list[Tensor] | None = None
    ) -> Iterator[None]:
        """Replace what the first lookup of the pass returns, and the first of its decoder; with a list, make
        it the start of the graph and put it there."""
        text = partial(_started, partial(self._text, inputs=inputs), leaf)
        answer = partial(_started, partial(self._answer, inputs=inputs), answer_leaf)
        decoder = None if inputs.answer is None else self.decoder_embedding
        if decoder is None:
            with hooked(self.embedding, in_turn(text)):
                yield
        elif decoder is self.embedding:  # one module for both: the encoder comes first
            with hooked(decoder, in_turn(text, answer)):
                yield
        else:
            with hooked(self.embedding, in_turn(text)), hooked(decoder, in_turn(answer)):
                yield

    def forward(self, inputs: Inputs) -> Tensor:
        """Logits with the user's own attention implementation."""
        with untouched(self.model):
            if inputs.embeds is None and not inputs.blank and not inputs.answer_blank:
                return self._kept(self._run(**self._arguments(inputs)).logits, inputs)
            with self._embedding_hook(inputs):
                return self._kept(self._run(**self._arguments(inputs)).logits, inputs)

    def begun(self, ids: Sequence[int]) -> Any:
        """Keys and values of a text, for rows that begin like it; None where they cannot be shared."""
        row = torch.tensor([list(ids)])
        arguments = self._arguments(Inputs(row, torch.ones_like(row), keep_positions=(len(ids) - 1,)))
        with untouched(self.model), torch.inference_mode():
            out = self._run(**(arguments | {"use_cache": True}))
        return plain(getattr(out, "past_key_values", None))

    def forward_after(self, inputs: Inputs, past: Any) -> Tensor:
        """Logits of what follows tokens whose keys and values are given."""
        with untouched(self.model), self._embedding_hook(inputs) if inputs.blank else nullcontext():
            arguments = self._arguments(inputs) | {"past_key_values": past, "use_cache": True}
            return self._kept(self._run(**arguments).logits, inputs)

    @cached_property
    def shares_prefixes(self) -> bool:
        """Whether two rows that begin alike answer the same when the beginning is read once."""
        alone = self._probe_inputs(1)
        ids = alone.ids.repeat(2, 8)[:, :8]
        ids[1, 6] = ids[0, 5]
        whole = Inputs(ids, torch.ones_like(ids), keep_positions=(5, 7))
        try:
            past = self.begun(ids[0, :4].tolist())
            if past is None:
                return False
            with torch.inference_mode():
                expected = self.forward(whole)
                tensor = self.forward_after(after(whole, None, 4)[0], first(past, 4, 2))
        except (HeedfulError, *RUN_ERRORS):
            return False
        return _same(tensor, expected)

    def traced(self, inputs: Inputs, hidden: bool = False) -> TraceOutput:
        """One pass in eager attention with a graph from the embeddings and attention weights on."""
        leaf: list[Tensor] = []
        answer: list[Tensor] = []
        with (
            untouched(self.model),
            eager_attention(self.model) as before,
            self._embedding_hook(inputs, leaf, answer),
        ):
            out = self._run(**self._arguments(inputs, output_attentions=True, output_hidden_states=True))
        if not leaf:
            raise HeedfulError(
                f"{self.name} never called its input embedding", "gradients cannot be taken there"
            )
        logits = self._kept(out.logits, inputs)
        result = _output(out, leaf[0], logits, self.config.is_encoder_decoder, hidden, _switched(before))
        return replace(result, answer_embeds=answer[0] if answer else None)

    def attention_only(self, inputs: Inputs) -> AttentionOutput:
        """Attention weights of one pass in eager attention; logits, if there are any, are not looked at."""
        with untouched(self.model), eager_attention(self.model) as before, torch.no_grad():
            out = self._run(**self._arguments(inputs, output_attentions=True))
        names = ("attentions", "cross_attentions", "decoder_attentions")
        if self.config.is_encoder_decoder:
            names = ("encoder_attentions", *names[1:])
        own, cross, decoder = (tuple(getattr(out, name, None) or ()) for name in names)
        return AttentionOutput(own, cross, decoder, _switched(before))

    def lookup(self, inputs: Inputs) -> Tensor:
        """(B, T, d) embeddings the model would read for these ids, blanked positions included."""
        with untouched(self.model):
            embeds = self.embedding(inputs.ids.to(self.device))
            return self._blanked(embeds, inputs)

    def lookup_written(self, ids: Tensor, blank: Sequence[int] = ()) -> Tensor:
        """(B, A, d) embeddings an encoder-decoder's decoder would read, the positions `blank` set to their
        mean."""
        assert self.decoder_embedding is not None
        with untouched(self.model):
            embeds = self.decoder_embedding(ids.to(self.device))
            places = tuple((row, t) for row in range(len(ids)) for t in blank)
            return blanked(embeds, places, lambda: self.decoder_mean)

    def forward_with_grad(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """(logits, embeddings) of a pass with a graph, in the user's own attention implementation."""
        leaf: list[Tensor] = []
        with untouched(self.model), self._embedding_hook(inputs, leaf):
            return self._kept(self._run(**self._arguments(inputs)).logits, inputs), leaf[0]

    def relevances(self, inputs: Inputs, score: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
        """Relevance of each layer's attention weights, (H, T, T); see heedful.models.relevance_rules."""
        leaf: list[Tensor] = []
        with torch.inference_mode(False), torch.enable_grad(), untouched(self.model):
            with eager_attention(self.model), self._embedding_hook(inputs, leaf), RelevanceRules():
                out = self._run(**self._arguments(inputs, output_attentions=True))
            return relevances(out.logits, tuple(out.attentions), score)

    def runner(self, inputs: Inputs) -> Callable[[], Any]:
        """A plain pass, for those who look inside by hooks."""
        return lambda: self._run(**self._arguments(inputs))

    @cached_property
    def sites(self) -> Sites:
        """Where each attention module stands; {} where its weights cannot be changed, which is tried."""
        inputs = self._probe_inputs(1)
        with untouched(self.model), torch.inference_mode():
            try:
                results = find_sites(
                    self.model, lambda: self._run(**self._arguments(inputs, output_attentions=True))
                )
                plain = self._run(**self._arguments(inputs))[0]
                with attending(self.model, results, lambda seen: seen.reweighed(seen.weights.clone())):
                    same = self._run(**self._arguments(inputs))[0]
            except (HeedfulError, *RUN_ERRORS):
                return {}
        return results if _same(same, plain) else {}

    def attending(self, edit: Edit) -> AbstractContextManager[None]:
        if not self.sites:
            raise HeedfulError(
                f"the attention of {type(self.model).__name__} cannot be changed as it runs",
                "it does not go through transformers' attention switch",
            )
        return attending(self.model, self.sites, edit)

    def find_nan(self, inputs: Inputs) -> str | None:
        if self.kind == "encoder-decoder" and inputs.answer is None:  # nothing is written yet
            starts = [[self.special_id("decoder_start") or 0]] * len(inputs.ids)
            inputs = replace(inputs, answer=torch.tensor(starts))
        with untouched(self.model), torch.no_grad(), self._embedding_hook(inputs):
            return first_broken_layer(self.model, lambda: self._run(**self._arguments(inputs)))

    # --- what it can do ----------------------------------------------------------------------------

    @cached_property
    def _probe(self) -> frozenset[str]:
        """Try everything once on two tokens: a capability is what came back, not what a class name says."""
        inputs = self._probe_inputs(1)
        result = {"generate"} if self.kind in ("causal-lm", "encoder-decoder") else set()
        if self.kind != "encoder":
            result.add("values")
        with torch.inference_mode(False), torch.enable_grad():
            try:
                with GuidedRelu() as rule:  # counts ReLUs
                    out = self.traced(inputs)
            except (HeedfulError, *RUN_ERRORS):
                return frozenset(result)
            maps = (*out.attentions, *out.cross)
            grads = torch.autograd.grad(out.logits.float().sum(), [out.embeds, *maps], allow_unused=True)
        if grads[0] is not None:
            result |= {"gradients", "relu"} if rule.calls else {"gradients"}
        if maps and any(grad is not None for grad in grads[1:]):
            result.add("attentions")
        if (
            out.attentions
            and not out.cross
            and can_zero(self.model, self.runner(inputs), len(out.attentions))
        ):
            result.add("value-maps")
        if maps and self.sites:
            result.add("edits")
        if self.labels and not out.cross and self._has_rules(inputs):
            result.add("relevance")
        return frozenset(result)

    def _has_rules(self, inputs: Inputs) -> bool:
        try:
            return bool(self.relevances(inputs, lambda logits: logits[0, 0]))
        except (HeedfulError, *RUN_ERRORS):
            return False

    def _probe_inputs(self, rows: int) -> Inputs:
        known = getattr(self.model.get_input_embeddings(), "num_embeddings", None)
        ids = tokenized(self.tokenizer, "a b")["input_ids"] or [0, 0]
        ids = [token if known is None or token < known else 0 for token in ids]
        answer = None
        if self.config.is_encoder_decoder and self.kind == "encoder-decoder":
            answer = torch.full((rows, 1), self.special_id("decoder_start") or 0)
        tensor = torch.tensor([ids] * rows)
        return Inputs(tensor, torch.ones_like(tensor), answer=answer)

    def offers(self) -> frozenset[str]:
        return self._probe

    @cached_property
    def one_row_at_a_time(self) -> bool:
        """Some decoder classifiers refuse padded batches or read their answer from the padding: try one."""
        if not self.labels:
            return False
        alone = self._probe_inputs(1)
        width = alone.ids.shape[1]
        pad = torch.full((1, 3), self.special_id("pad") or 0)
        padded = Inputs(
            torch.cat([alone.ids, pad], 1).repeat(2, 1), (torch.arange(width + 3) < width).long().repeat(2, 1)
        )
        with torch.inference_mode():
            expected = self.forward(alone)[0]
            try:
                result = self.forward(padded)[0]
            except HeedfulError:
                return True
        return not _same(result, expected)

    def special_id(self, name: str) -> int | None:
        """Id of the mask, unk, pad, bos, eos or decoder_start token, None where there is none."""
        if name == "decoder_start":
            for holder in (self.config, getattr(self.model, "generation_config", None)):
                if start := self._known_ids(getattr(holder, "decoder_start_token_id", None)):
                    return start[0]
            begin = self.special_id("bos")
            return self.special_id("pad") if begin is None else begin
        stated = getattr(self.config, f"{name}_token_id", None) if name in ("pad", "bos", "eos") else None
        if isinstance(stated, list):
            stated = stated[0] if stated else None
        stated = stated if is_id(stated) else None
        result = getattr(self.tokenizer, f"{name}_token_id", None)
        # classifiers and RoBERTa's positions know padding by the config's id, not by the tokenizer's
        if not is_id(result) or (name == "pad" and stated is not None and stated < self.vocabulary):
            result = stated
        return None if result is None else int(result)

    def _known_ids(self, stated: Any) -> list[int]:
        """Of an id or a list of ids in a config, those that the model can write."""
        table = self.decoder_embedding
        size = self.vocabulary if table is None else int(table.num_embeddings)  # type: ignore[arg-type]
        given = stated if isinstance(stated, list) else [stated]
        return [one for one in given if is_id(one) and one < size]

    def _decoder_starts(self) -> dict[str, int | None]:
        """How the answer of an encoder-decoder begins. Translators name the language by a forced token."""
        forced = self._known_ids(getattr(self.model.generation_config, "forced_bos_token_id", None))
        return {
            "decoder_start_token_id": self.special_id("decoder_start"),
            "forced_bos_token_id": forced[0] if forced else None,
        }

    def generate(self, inputs: Inputs, strategy: str = "greedy", seed: int = 0, **options: Any) -> list[int]:
        """New token ids. Options: max_new_tokens, temperature, top_k, top_p, beams."""
        from transformers import GenerationConfig

        eos, pad = self.special_id("eos"), self.special_id("pad")
        ends = self._known_ids(getattr(self.model.generation_config, "eos_token_id", None))
        config = GenerationConfig(
            **generation_settings(strategy, **options),
            eos_token_id=ends or eos,
            pad_token_id=eos if pad is None else pad,
            bos_token_id=self.special_id("bos"),
            **(self._decoder_starts() if self.config.is_encoder_decoder else {}),
        )
        with (
            untouched(self.model),
            set_generation(self.model, config),
            torch.inference_mode(),
            seeded(seed),
            run_errors(self.name),
        ):
            out = self.model.generate(
                inputs.ids.to(self.device),
                attention_mask=inputs.mask.to(self.device),
                generation_config=config,
                logits_processor=[_refuse_nan],
            )
        skip = 1 if self.config.is_encoder_decoder else inputs.ids.shape[1]
        return [int(token) for token in out[0, skip:]]

    def _attention_name(self) -> str:
        name = str(getattr(self.config, "_attn_implementation", "none"))
        return "eager, edited" if name.startswith(EDITED) else name

    def facts(self) -> dict[str, Any]:
        parameters = list(self.model.parameters())
        return {
            "class": type(self.model).__name__,
            "parameters": sum(p.numel() for p in parameters),
            "dtype": str(parameters[0].dtype).removeprefix("torch."),
            "attention": self._attention_name(),
            "fingerprint": fingerprint(self.model),
        } | ({"shares_prefixes": self.shares_prefixes} if "shares_prefixes" in vars(self) else {})


def _mean(embedding: nn.Module, device: torch.device) -> Tensor:
    """(d,)"""
    size = int(embedding.num_embeddings)  # type: ignore[arg-type]
    with torch.inference_mode(False), torch.no_grad():
        return embedding(torch.arange(size, device=device)).mean(0)  # type: ignore[no-any-return]


def blanked(embeds: Tensor, places: Sequence[tuple[int, int]], mean: Callable[[], Tensor]) -> Tensor:
    """Embeddings (B, T, d) with the mean at these (row, position)."""
    if not places:
        return embeds
    rows, positions = zip(*places, strict=True)
    return embeds.index_put((torch.tensor(rows), torch.tensor(positions)), mean().to(embeds))


def _started(change: Callable[[Tensor], Tensor], leaf: list[Tensor] | None, output: Tensor) -> Tensor:
    """What is read in place of a lookup's output; with a list, the start of the graph, which is put there."""
    embeds = change(output)
    if leaf is not None:
        embeds = embeds.detach().clone().requires_grad_(True)
        leaf.append(embeds)
    return embeds


def in_turn(*changes: Callable[[Tensor], Tensor]) -> Callable[[nn.Module, Any, Tensor], Tensor | None]:
    """A hook that changes what the first calls return, each in its own way, and nothing after them."""
    left = list(changes)

    def change(_module: nn.Module, _args: Any, output: Tensor) -> Tensor | None:
        return left.pop(0)(output) if left else None

    return change


def _same(some: Tensor, others: Tensor) -> bool:
    """Equal but for rounding: far above it, far below another token's answer. In float64, too, transformers
    takes softmax and rotary positions in float32. Two answers that are no numbers are the same."""
    if not (torch.isfinite(some).all() and torch.isfinite(others).all()):
        return torch.equal(torch.isfinite(some), torch.isfinite(others))
    close = max(torch.finfo(dtype).eps for dtype in (some.dtype, torch.float32)) ** 0.5
    return torch.allclose(some, others, rtol=close, atol=close * float(others.abs().max()))


def _switched(before: str) -> tuple[str, ...]:
    """What the reader is told of the pass that shows its weights."""
    if before in ("eager", "none"):
        return ()
    return (f"attention switched from {before} to eager for this pass",)


def _output(
    out: Any, embeds: Tensor, logits: Tensor, seq2seq: bool, hidden: bool, notes: tuple[str, ...]
) -> TraceOutput:
    states = out.decoder_hidden_states if seq2seq else out.hidden_states
    if not seq2seq:
        return TraceOutput(
            logits,
            embeds,
            states[-1] if states else None,
            attentions=tuple(out.attentions or ()),
            hidden=tuple(states or ()) if hidden else (),
            notes=notes,
        )
    return TraceOutput(
        logits,
        embeds,
        states[-1],
        attentions=tuple(out.encoder_attentions or ()),
        cross=tuple(out.cross_attentions or ()),
        decoder_attentions=tuple(out.decoder_attentions or ()),
        hidden=tuple(out.encoder_hidden_states or ()) if hidden else (),
        notes=notes,
    )


def _refuse_nan(_ids: Tensor, scores: Tensor) -> Tensor:
    """Greedy search would write on, and sampling fail with an error of its own."""
    if bool((scores.isnan() | scores.isposinf()).any()):
        raise FloatingPointError("the model answers NaN")
    return scores
