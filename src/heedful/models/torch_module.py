"""Any nn.Module with two functions as a backend:

    embed(ids)            (B, T) -> (B, T, d)
    forward(embeds, mask) (B, T, d), (B, T) -> logits (B, C), or (logits, attentions)

Attentions, where the module shows them, are one tensor or a list of one per layer, (B, H, Q, T) or, for a
single query, (B, H, T). The removal operator "mean" is offered when the module has exactly one token table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from heedful.core.errors import HeedfulError
from heedful.modalities.tokenizer_calls import tokenized
from heedful.models.attention_hooks import AttentionState, Edit, Site
from heedful.models.backend import AttentionOutput, Backend, Inputs, TraceOutput
from heedful.models.contexts import first_broken_layer, hooked, untouched
from heedful.models.guided_relu import GuidedRelu
from heedful.models.head_outputs import head_kind
from heedful.models.hf_config import UNLIMITED, fingerprint
from heedful.nn.mixing import Mixes
from heedful.nn.one_layer import OneLayerClassifier

Embed = Callable[[Tensor], Tensor]
Forward = Callable[[Tensor, Tensor], Any]


class TorchBackend(Backend):
    """A classifier of the user's own making; with one output, a regression."""

    def __init__(
        self,
        module: nn.Module,
        tokenizer: Any,
        *,
        embed: Embed | None = None,
        forward: Forward | None = None,
        labels: Sequence[str] | None = None,
        name: str = "",
        window: int | None = None,
    ) -> None:
        self._module, self.tokenizer = module, tokenizer
        self.embed = embed or getattr(module, "embed", None)
        self._forward = forward or (lambda embeds, mask: module(inputs_embeds=embeds, attention_mask=mask))
        if self.embed is None:
            raise HeedfulError(
                f"{type(module).__name__} shows no embedding function",
                fix="Pass embed=..., a function from ids (B, T) to embeddings (B, T, d)",
            )
        self.name = name or type(module).__name__
        stated = getattr(tokenizer, "model_max_length", UNLIMITED)
        self.window = window or min(int(stated), UNLIMITED)
        count = self._count_labels()
        self.kind = head_kind(None, count)
        self.labels = tuple(labels) if labels is not None else tuple(f"label {i}" for i in range(count))
        if len(self.labels) != count:
            raise HeedfulError(f"{len(self.labels)} labels were given, but {self.name} gives {count} logits")

    def _count_labels(self) -> int:
        ids = torch.tensor([tokenized(self.tokenizer, "a")["input_ids"]])
        with torch.inference_mode():
            logits = self.forward(Inputs(ids, torch.ones_like(ids)))
        if logits.ndim != 2 or len(logits) != 1:
            raise HeedfulError(
                f"{self.name} gave logits of shape {tuple(logits.shape)} for one text",
                fix="Return logits (B, C), or (logits, attentions)",
            )
        return int(logits.shape[1])

    @property
    def module(self) -> nn.Module:
        return self._module

    @property
    def device(self) -> torch.device:
        first = next(self.module.parameters(), None)
        return torch.device("cpu") if first is None else first.device

    @property
    def token_table(self) -> nn.Embedding | None:
        return self.table

    @cached_property
    def table(self) -> nn.Embedding | None:
        """The module's one token table, if there is exactly one."""
        tables = [m for m in self.module.modules() if isinstance(m, nn.Embedding)]
        whole = [m for m in tables if m.num_embeddings >= len(self.tokenizer)]
        return whole[0] if len(whole) == 1 else None

    @property
    def has_mean(self) -> bool:
        return self.table is not None

    @contextmanager
    def _blanking(self, inputs: Inputs) -> Iterator[None]:
        if not inputs.blank:
            yield
            return
        table, calls = self.table, 0
        if table is None:
            raise HeedfulError(f"{self.name} has no single token table", "so a mean embedding is not defined")
        rows, positions = zip(*inputs.blank, strict=True)

        def blank(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            mean = table.weight.detach().mean(0).to(output)
            return output.index_put((torch.tensor(rows), torch.tensor(positions)), mean)

        with hooked(table, blank):
            yield
        if not calls:
            raise HeedfulError(
                f"{self.name} looks its tokens up without calling its table",
                "so no mean embedding can be put in",
                "Use another operator",
            )

    def _embeds(self, inputs: Inputs) -> Tensor:
        assert self.embed is not None
        with self._blanking(inputs):
            return self.embed(inputs.ids.to(self.device)) if inputs.embeds is None else inputs.embeds

    def lookup(self, inputs: Inputs) -> Tensor:
        with untouched(self.module):
            return self._embeds(inputs)

    def forward_with_grad(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        out = self.traced(inputs)
        return out.logits, out.embeds

    def forward(self, inputs: Inputs) -> Tensor:
        with untouched(self.module):
            return _split(self._forward(self._embeds(inputs), inputs.mask.to(self.device)))[0]

    def traced(self, inputs: Inputs, hidden: bool = False) -> TraceOutput:
        with untouched(self.module):
            embeds = self._embeds(inputs).detach().clone().requires_grad_(True)
            logits, attentions = _split(self._forward(embeds, inputs.mask.to(self.device)))
        return TraceOutput(logits, embeds, None, attentions=attentions)

    @contextmanager
    def attending(self, edit: Edit) -> Iterator[None]:
        """Heads are changed where the module mixes its values."""
        if not isinstance(self.module, Mixes):
            raise HeedfulError(
                f"the attention of {type(self.module).__name__} cannot be changed as it runs",
                "only transformers models and modules that mix through heedful.nn.Mixing show where",
            )

        def change(_module: nn.Module, args: Any, output: Any) -> tuple[Tensor, Tensor]:
            alpha, mixed = output  # (B, K, T), (B, K, d_out)
            _, e, value, mask = args
            allowed = torch.ones(1, e.shape[1]) if mask is None else mask
            values = torch.einsum("kod,btd->bkto", value, e)
            allowed = allowed.bool()[:, None, None].to(e.device)
            observed = edit(
                AttentionState(Site("self", 0), alpha[:, :, None], values, mixed[:, :, None], allowed)
            )
            return observed.weights[:, :, 0], observed.heads[:, :, 0]

        with hooked(self.module.mix, change):
            yield

    def attention_only(self, inputs: Inputs) -> AttentionOutput:
        with untouched(self.module), torch.no_grad():
            result = self._forward(self._embeds(inputs), inputs.mask.to(self.device))
        return AttentionOutput(_split(result)[1])

    def find_nan(self, inputs: Inputs) -> str | None:
        with untouched(self.module), torch.no_grad():
            return first_broken_layer(
                self.module, lambda: self._forward(self._embeds(inputs), inputs.mask.to(self.device))
            )

    @cached_property
    def _offers(self) -> frozenset[str]:
        ids = torch.tensor([tokenized(self.tokenizer, "a b")["input_ids"]])
        with torch.inference_mode(False), torch.enable_grad():
            with GuidedRelu() as rule:
                out = self.traced(Inputs(ids, torch.ones_like(ids)))
            grads = torch.autograd.grad(out.logits.sum(), [out.embeds, *out.attentions], allow_unused=True)
        result = {"values"} | ({"gradients"} if grads[0] is not None else set())
        result |= {"relu"} if rule.calls else set()
        result |= {"edits"} if isinstance(self.module, Mixes) else set()
        result |= {"attentions"} if any(g is not None for g in grads[1:]) else set()
        return frozenset(result | ({"one-layer"} if self._is_one_layer(ids, out.logits) else set()))

    def _is_one_layer(self, ids: Tensor, logits: Tensor) -> bool:
        """The module is the textbook classifier, and `embed` and `forward` add nothing of their own."""
        if not isinstance(self.module, OneLayerClassifier):
            return False
        with untouched(self.module), torch.no_grad():
            bare = self.module.attend(ids.to(self.device), torch.ones_like(ids).to(self.device)).logits
        return bool(torch.allclose(bare, logits.detach(), rtol=1e-4, atol=1e-6 * float(bare.abs().max())))

    def offers(self) -> frozenset[str]:
        return self._offers

    def special_id(self, name: str) -> int | None:
        result = getattr(self.tokenizer, f"{name}_token_id", None)
        return None if result is None else int(result)

    def facts(self) -> dict[str, Any]:
        parameters = list(self.module.parameters())
        return {
            "class": type(self.module).__name__,
            "parameters": sum(p.numel() for p in parameters),
            "dtype": str(parameters[0].dtype).removeprefix("torch.") if parameters else "none",
            "attention": "its own",
            "fingerprint": fingerprint(self.module),
        }


def _split(result: Any) -> tuple[Tensor, tuple[Tensor, ...]]:
    """(logits, attentions) from whatever a module returned; the very tensors, so that gradients find them."""
    logits, *rest = (result,) if isinstance(result, Tensor) else result[:2]
    attentions = rest[0] if rest else ()
    return logits, (attentions,) if isinstance(attentions, Tensor) else tuple(attentions or ())
