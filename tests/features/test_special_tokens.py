"""Special tokens are not the text: no edit of a feature reaches them, and what lies there is told apart.

The oracle is plain torch at the door of the block after the site: it sees what every edit left, and makes
the same edits by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from tests.features.test_feature_attributions import SITE, WIDTH, output_of, random_sae
from torch import Tensor

from heedful.comparisons.internals import active_features
from heedful.features.reading.explain_features import explain_features
from heedful.models.sites.access import site_names

SEEDS = (11, 12, 13)
TEXTS = ("the cat sat on the mat", "a dog ran to the low house!")
NEXT: dict[str, Callable[[Any], Any]] = {  # the block after blocks.0.resid
    "bert": lambda hf: hf.bert.encoder.layer[1],
    "roberta": lambda hf: hf.roberta.encoder.layer[1],
    "llama": lambda hf: hf.model.layers[1],  # a beginning of text, as GPT-like models have it
    "gpt2": lambda hf: hf.transformer.h[1],  # no special token at all
    "t5": lambda hf: hf.encoder.block[1],
    "bart": lambda hf: hf.model.encoder.layers[1],
}
SPECIAL = tuple(name for name in NEXT if name != "gpt2")


@contextmanager
def entering(block: Any, edit: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """`edit` changes what enters the block."""

    def hook(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args:
            return (edit(args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": edit(kwargs["hidden_states"])}

    handle = block.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def recorded(family: Any, run: Callable[[], Any]) -> tuple[Any, list[Tensor]]:
    """What `run` gives, and each row (T, d) that entered the block."""
    rows: list[Tensor] = []

    def keep(hidden: Tensor) -> Tensor:
        rows.extend(hidden.detach().clone())
        return hidden

    with entering(NEXT[family.name](family.hf), keep):
        return run(), rows


@pytest.mark.parametrize("name", list(NEXT))
@pytest.mark.parametrize("text", TEXTS)
def test_no_edit_reaches_a_special_token(name: str, text: str, shared: Callable[[str], Any]) -> None:
    """One row alone is edited there: the one that says what the special tokens hold."""
    family = shared(name)
    x = family.model.encode(text)
    special = np.array(x.special)
    assert special.any() == (name in SPECIAL)
    target = family.model.target(x)
    assert SITE in site_names(family.model)  # found by passes that are none of ours
    explain_features(family.model, random_sae(SITE, seed=0), x, target, k=4)  # so is what it probes once
    for sae in (random_sae(SITE, seed=seed) for seed in SEEDS):
        _, (clean,) = recorded(family, lambda: output_of(family.model, x, target))
        found, rows = recorded(family, lambda sae=sae: explain_features(family.model, sae, x, target, k=4))
        # (rows, T): batches of another size round otherwise, by less than 1e-5; an edit is larger
        moved = np.array([(row - clean).abs().amax(-1).numpy() > 1e-3 for row in rows])
        outside = moved[:, special].any(1)
        assert outside.sum() == int(special.any())
        assert not moved[outside][:, ~special].any(), "apart from the text"
        assert moved[~outside][:, ~special].any(0).all(), "every token of the text is edited in some row"
        assert not found.scores[special].any()
        assert all(not np.array(f.activations)[special].any() for f in (*found.features, *found.control))


@pytest.mark.parametrize("name", list(NEXT))
def test_effects_and_scores_are_those_by_hand(name: str, shared: Callable[[str], Any]) -> None:
    family = shared(name)
    model, block = family.model, NEXT[name](family.hf)
    x = model.encode(TEXTS[1])
    text = torch.tensor(x.special).logical_not()
    target = model.target(x)
    for seed in SEEDS:
        sae = random_sae(SITE, seed=seed)
        found = explain_features(model, sae, x, target, k=4)
        _, (clean,) = recorded(family, lambda: output_of(model, x, target))
        codes = sae.encode(clean)  # (T, F)

        def without(features: list[int], where: Tensor, codes: Tensor = codes, sae: Any = sae) -> float:
            gone = (codes[:, features] @ sae.W_dec[features]) * where[:, None]
            with entering(block, lambda hidden: hidden - gone):
                return output_of(model, x, target)

        output, chosen = output_of(model, x, target), [f.index for f in found.features]
        strength = (codes * text[:, None]).sum(0) * sae.W_dec.norm(dim=1)
        assert chosen == strength.topk(4).indices.tolist()
        for feature in (*found.features, *found.control):
            assert feature.effect == pytest.approx(output - without([feature.index], text), abs=2e-4)
        assert found.together == pytest.approx(output - without(chosen, text), abs=2e-4)
        assert found.everything == pytest.approx(output - without(list(range(WIDTH)), text), abs=2e-4)
        assert found.special.effect == pytest.approx(output - without(chosen, ~text), abs=2e-4)
        assert found.scores.sum() == pytest.approx(found.explained, abs=1e-6), "effects are handed out whole"
        weight = slopes(family, x, target) @ sae.W_dec[chosen].T * codes[:, chosen]  # (T, k)
        weight = weight.abs().double()
        total = (weight * text[:, None]).sum(0)
        share = torch.where(total > 0, weight * text[:, None] / total, 0.0)
        effects = torch.tensor([f.effect for f in found.features], dtype=torch.float64)
        assert found.scores == pytest.approx((share @ effects).numpy(), abs=1e-4)
        there = float(weight[~text].sum() / weight.sum())
        assert found.special.share == pytest.approx(there, abs=1e-4)


def slopes(family: Any, x: Any, target: Any) -> Tensor:
    """(T, d) d target / d what enters the block, by autograd of the transformers model itself."""
    kept: list[Tensor] = []

    def leaf(hidden: Tensor) -> Tensor:
        kept.append(hidden.detach().requires_grad_())
        return kept[-1]

    model = family.model
    row = torch.tensor([x.ids])
    more: dict[str, Any] = {}
    if model.kind == "encoder-decoder":
        start = family.hf.config.decoder_start_token_id
        more["decoder_input_ids"] = torch.tensor([[start, *target.sequence[:-1]]])
    if x.type_ids is not None:
        more["token_type_ids"] = torch.tensor([x.type_ids])
    with entering(NEXT[family.name](family.hf), leaf):
        logits = family.hf(input_ids=row, attention_mask=torch.ones_like(row), **more).logits
    if target.kind == "sequence":
        told = logits[0].log_softmax(-1)
        told[torch.arange(len(target.sequence)), list(target.sequence)].sum().backward()
    else:
        (logits[0] if logits.ndim == 2 else logits[0, -1])[target.index].backward()
    gradient = kept[0].grad
    family.hf.zero_grad(set_to_none=True)
    assert gradient is not None
    return gradient[0]


@pytest.mark.parametrize("name", SPECIAL)
def test_what_is_left_out_is_said(name: str, shared: Callable[[str], Any]) -> None:
    model, sae = shared(name).model, random_sae(SITE, seed=11)
    found = explain_features(model, sae, TEXTS[0], k=4)
    (note,) = found.notes
    assert f"{100 * found.special.share:.0f} %" in note
    assert 0 < found.special.share < 1
    assert found.to_dict()["special tokens"] == {"share": found.special.share, "effect": found.special.effect}
    assert found.attribution.notes == found.notes == active_features(found).notes
    assert found.attribution.special_mass == 0
    marks = {token for token, special in zip(found.x.tokens, found.x.special, strict=True) if special}
    assert not marks & {word for one in active_features(found).features for word in one.words}


def test_where_the_answer_is_read_from_a_special_token_alone(shared: Callable[[str], Any]) -> None:
    """BERT's classifier reads [CLS] of the last block: the text there does nothing, and the note says so."""
    model, sae = shared("bert").model, random_sae("blocks.1.resid", seed=11)
    found = explain_features(model, sae, TEXTS[0], k=WIDTH)
    assert [f.effect for f in found.features] == pytest.approx([0.0] * len(found.features), abs=1e-5)
    assert found.special.share == 1.0
    assert abs(found.special.effect) > 1e-3


def test_a_model_without_special_tokens_has_nothing_to_say(shared: Callable[[str], Any]) -> None:
    found = explain_features(shared("gpt2").model, random_sae(SITE, seed=11), TEXTS[0], k=4)
    assert (found.special.share, found.special.effect, found.notes) == (0.0, 0.0, ())
