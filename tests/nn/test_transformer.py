"""The original transformer against torch.nn.Transformer and Marian, and against its own definitions."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heedful.core.errors import HeedfulError
from heedful.nn import (
    AttentionMaps,
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
    beam_search,
    causal_mask,
    generate,
    sinusoids,
)

B, T, S, V = 3, 7, 5, 23
CONFIG = TransformerConfig(V, context=16, layers=2, heads=4, width=24, hidden=40, dropout=0.1)
EXACT = 1e-10  # float64 on both sides, sums in another order through four layers
REAL = torch.tensor([[1] * T, [1] * 4 + [0] * 3, [0, 0] + [1] * 5])  # no padding, on the right, on the left
WRITTEN = torch.tensor([[1] * S, [1] * 3 + [0] * 2, [0] + [1] * 4])


def model(**changes: Any) -> Transformer:
    made = Transformer(TransformerConfig(**{**vars(CONFIG), **changes}), seed=3).double().eval()
    with torch.no_grad():  # a fresh model has biases of zero and gains of one, which would hide a swap
        rng = torch.Generator().manual_seed(4)
        for p in made.parameters():
            if p.dim() == 1:
                p.add_(torch.randn(p.shape, generator=rng, dtype=torch.float64) * 0.3)
    return made


def ids(seed: int, *shape: int) -> Tensor:
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(seed))


SOURCE, TARGET = ids(1, B, T), ids(2, B, S)


def torch_attention(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    parts = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([p.weight for p in parts]))
        theirs.in_proj_bias.copy_(torch.cat([p.bias for p in parts]))
    theirs.out_proj.load_state_dict(ours.out.state_dict())


def torch_twin(ours: Transformer) -> nn.Transformer:
    c = ours.config
    theirs = nn.Transformer(
        c.width, c.heads, c.layers, c.layers, c.hidden, c.dropout, batch_first=True, norm_first=c.pre_norm
    ).double()
    encoder, decoder = (list(stack.layers) for stack in (theirs.encoder, theirs.decoder))
    for twin, layer in zip([*encoder, *decoder], [*ours.encoder, *ours.decoder], strict=True):
        torch_attention(twin.self_attn, layer.attn)
        pairs = [("linear1", layer.mlp.up), ("linear2", layer.mlp.down), ("norm1", layer.norm1)]
        if hasattr(twin, "multihead_attn"):
            torch_attention(twin.multihead_attn, layer.cross)
            pairs += [("norm2", layer.norm_cross), ("norm3", layer.norm2)]
        else:
            pairs += [("norm2", layer.norm2)]
        for name, part in pairs:
            getattr(twin, name).load_state_dict(part.state_dict())
    for stack, end in ((theirs.encoder, ours.encoder_end), (theirs.decoder, ours.decoder_end)):
        if c.pre_norm:
            stack.norm.load_state_dict(end.state_dict())
        else:
            stack.norm = None  # the paper has no LayerNorm after a stack; torch adds one
    return theirs.eval()


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_the_same_numbers_as_torch(pre_norm: bool, padded: bool) -> None:
    ours = model(pre_norm=pre_norm)
    theirs = torch_twin(ours)
    masks = (REAL, WRITTEN) if padded else (None, None)
    hide = {}
    if padded:
        names = ("src_key_padding_mask", "memory_key_padding_mask", "tgt_key_padding_mask")
        hide = dict(zip(names, (REAL == 0, REAL == 0, WRITTEN == 0), strict=True))
    with torch.enable_grad():  # torch's fast path of inference reads weights in other ways
        want = theirs(ours.embed(SOURCE), ours.embed(TARGET), tgt_mask=causal_mask(S) < 0, **hide)
    logits = want @ ours.token.weight.T + ours.bias
    got, maps = ours(SOURCE, TARGET, *masks), AttentionMaps([], [], [])
    by_formula = ours(SOURCE, TARGET, *masks, maps)
    real = WRITTEN.bool() if padded else torch.ones_like(TARGET).bool()  # padding itself may differ
    for found in (got, by_formula):
        torch.testing.assert_close(found[real], logits[real], atol=EXACT, rtol=0)
    assert [len(stack) for stack in maps] == [2, 2, 2]
    if padded:
        assert all((weights.transpose(1, 3)[REAL == 0] == 0).all() for weights in (*maps.cross,))


def marian(**changes: Any) -> Any:
    from transformers import MarianConfig, MarianMTModel

    sizes: dict[str, Any] = {"vocab_size": V, "max_position_embeddings": 16, "d_model": 24, "dropout": 0.1}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": 2, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 40}
    named = {"activation_function": "swish", "scale_embedding": True, "pad_token_id": 0}
    config = MarianConfig(**{**sizes, **named, "decoder_start_token_id": 0, "init_std": 0.3, **changes})
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(7401)
        theirs = MarianMTModel(config).double().eval()
        theirs.final_logits_bias.normal_()
        for p in theirs.parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * 0.3)
    return theirs


def test_the_marian_of_these_tests_is_always_the_same() -> None:
    state = torch.get_rng_state()
    one, other = marian(), marian()
    assert torch.equal(state, torch.get_rng_state())
    assert all(map(torch.equal, one.parameters(), other.parameters()))


@pytest.mark.parametrize("activation", ["swish", "relu", "gelu"])
def test_the_same_logits_as_marian(activation: str) -> None:
    theirs = marian(activation_function=activation)
    ours = Transformer.from_transformers(theirs)
    assert (ours.config.layers, ours.config.hidden, ours.training) == (2, 40, False)
    for mask in (None, REAL):
        with torch.no_grad():
            want = theirs(SOURCE, attention_mask=mask, decoder_input_ids=TARGET).logits
        torch.testing.assert_close(ours(SOURCE, TARGET, mask), want, atol=EXACT, rtol=0)


def test_greedy_and_beam_output_of_marian() -> None:
    theirs = marian()
    ours = Transformer.from_transformers(theirs)
    source, start = SOURCE[:1], torch.tensor([0])
    plain = {"max_new_tokens": 6, "forced_eos_token_id": None, "eos_token_id": 22, "bad_words_ids": None}
    want = theirs.generate(source, num_beams=1, do_sample=False, **plain)[0]
    after = ours.next_logits(source[0])
    assert generate(after, start, new_tokens=6, eos=22).tolist() == want.tolist()
    three = theirs.generate(source, num_beams=3, do_sample=False, early_stopping=False, **plain)[0]
    assert beam_search(after, start, 3, 6, eos=22)[0].ids.tolist() == three.tolist()


@pytest.mark.parametrize(
    ("field", "value"),
    [("scale_embedding", False), ("activation_function", "tanh"), ("decoder_ffn_dim", 20)],
)
def test_a_marian_it_cannot_compute_is_refused(field: str, value: Any) -> None:
    with pytest.raises(HeedfulError, match=r"this Marian has .*Transformer has .* Give a Marian"):
        Transformer.from_transformers(marian(**{field: value}))


def test_sines_first_are_the_same_codes_in_another_order() -> None:
    codes, halves = sinusoids(9, 6), sinusoids(9, 6, halves=True)
    assert torch.equal(halves, codes[:, [0, 2, 4, 1, 3, 5]])
    assert sinusoids(9, 5, halves=True).shape == (9, 5)


def test_padding_changes_nothing_and_a_hidden_word_does() -> None:
    ours = model()
    alone = ours(SOURCE[:1, :4], TARGET[:1])
    mask = torch.tensor([[1] * 4 + [0] * 3])
    torch.testing.assert_close(ours(SOURCE[:1], TARGET[:1], mask), alone, atol=EXACT, rtol=0)
    assert (ours(SOURCE[:1], TARGET[:1]) - alone).abs().max() > 1e-3


def test_no_position_sees_the_target_after_it() -> None:
    ours, other = model(), TARGET.clone()
    other[:, 3:] = (other[:, 3:] + 1) % V
    gap = (ours(SOURCE, TARGET) - ours(SOURCE, other)).abs().amax((0, 2))
    assert (gap[:3] < 1e-12).all()
    assert (gap[3:] > 1e-3).all()


def test_loss_is_the_mean_over_real_tokens_written_out() -> None:
    ours = model()
    source, target = ids(5, 2, 6) % 22 + 1, ids(6, 2, 5) % 22 + 1
    source[1, 4:], target[1, 3:] = 0, 0
    terms = []
    for row, (reads, writes) in enumerate(((6, 5), (4, 3))):
        logp = ours(source[row : row + 1, :reads], target[row : row + 1, : writes - 1]).log_softmax(-1)[0]
        terms += [-logp[t, target[row, t + 1]] for t in range(writes - 1)]
    torch.testing.assert_close(ours.loss(source, target), torch.stack(terms).mean(), atol=EXACT, rtol=0)


def test_weights_are_rows_of_shares_and_carry_gradients() -> None:
    ours, maps = model(), AttentionMaps([], [], [])
    logits = ours(SOURCE, TARGET, REAL, None, maps)
    grads = torch.autograd.grad(logits[0, -1, 5], [*maps.encoder, *maps.decoder, *maps.cross])
    for weights, grad in zip(itertools.chain(*maps), grads, strict=True):
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        assert grad.abs().max() > 0
    torch.testing.assert_close(ours.attentions(SOURCE, TARGET, REAL).cross[1], maps.cross[1])


def test_it_draws_from_its_seed_and_begins_near_chance() -> None:
    state = torch.random.get_rng_state()
    first, same, other = (Transformer(CONFIG, seed) for seed in (0, 0, 1))
    assert torch.equal(state, torch.random.get_rng_state())
    assert torch.equal(first.token.weight, same.token.weight)
    assert not torch.equal(first.token.weight, other.token.weight)
    assert abs(first.eval().loss(SOURCE + 1 - 1, TARGET, pad=-1).item() - math.log(V)) < 1.5


def test_a_source_that_is_too_long_is_refused() -> None:
    with pytest.raises(HeedfulError, match="17 tokens"):
        model()(ids(1, 1, 17), TARGET[:1])
