"""GPT-2 against transformers' GPT-2: logits, loss, gradients, attention maps, greedy and beam outputs."""

import pytest
import torch
from transformers import GPT2Config as TheirConfig
from transformers import GPT2LMHeadModel

from heedful.core.errors import HeedfulError
from heedful.nn import GPT2, GPT2Config, beam_search, generate

SMALL = GPT2Config(vocab_size=101, context=32, layers=3, heads=4, width=32)
CLOSE = 1e-4  # the bound; float32 through 12 layers in another order of addition stays below 1e-5


def their_model(seed: int = 0, spread: float = 6.0, **changes: object) -> GPT2LMHeadModel:
    """A small random transformers GPT-2 with every weight and bias away from its initial 0 or 1."""
    torch.manual_seed(seed)
    config = TheirConfig(
        vocab_size=101,
        n_positions=32,
        n_embd=32,
        n_layer=3,
        n_head=4,
        bos_token_id=None,
        eos_token_id=None,
        **changes,
    )
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.02 * spread)
    return model


def ids_of(*shape: int, vocab: int = 101, seed: int = 0) -> torch.Tensor:
    return torch.randint(vocab, shape, generator=torch.Generator().manual_seed(seed))


def test_same_logits_and_loss_as_transformers() -> None:
    theirs, ids = their_model(), ids_of(3, 32)
    ours = GPT2.from_transformers(theirs)
    torch.testing.assert_close(ours(ids), theirs(ids).logits, atol=CLOSE, rtol=0)
    assert ours(ids).std() > 0.5, "logits too flat for the comparison to mean much"
    assert ours.loss(ids).item() == pytest.approx(
        theirs(ids, labels=ids, loss_type=None).loss.item(), abs=1e-5
    )


@pytest.mark.slow  # the small ones hold the same
def test_same_logits_at_124m() -> None:
    """GPT-2 small as released: 12 layers, 12 heads, width 768, vocabulary 50,257, random weights."""
    torch.manual_seed(0)
    theirs = GPT2LMHeadModel(TheirConfig()).eval()
    ours = GPT2.from_transformers(theirs)
    assert ours.config == GPT2Config(dropout=0.1)
    ids = ids_of(2, 48, vocab=50257)
    with torch.inference_mode():
        torch.testing.assert_close(ours(ids), theirs(ids).logits, atol=CLOSE, rtol=0)
        prompt = ids[0, :6]
        want = theirs.generate(
            prompt[None], max_new_tokens=5, do_sample=False, eos_token_id=None, pad_token_id=0
        )
        assert torch.equal(generate(ours.next_logits, prompt, "greedy", new_tokens=5), want[0])
        want = theirs.generate(
            prompt[None], max_new_tokens=5, num_beams=3, do_sample=False, eos_token_id=None, pad_token_id=0
        )
        assert torch.equal(generate(ours.next_logits, prompt, "beam", new_tokens=5, beams=3), want[0])


def test_padding_on_either_side_as_transformers() -> None:
    theirs, ids = their_model(), ids_of(2, 12)
    mask = torch.ones_like(ids)
    mask[0, 8:] = 0
    mask[1, :5] = 0
    got = GPT2.from_transformers(theirs)(ids, mask)
    want = theirs(ids, attention_mask=mask).logits
    torch.testing.assert_close(got[mask.bool()], want[mask.bool()], atol=CLOSE, rtol=0)
    assert got.isfinite().all()


def test_the_future_and_the_padding_change_nothing() -> None:
    ours, ids = GPT2.from_transformers(their_model()), ids_of(1, 12)
    later = ids.clone()
    later[0, 7:] = (later[0, 7:] + 1) % 101
    torch.testing.assert_close(ours(ids)[:, :7], ours(later)[:, :7], atol=1e-6, rtol=0)
    assert (ours(ids)[:, 7] - ours(later)[:, 7]).abs().max() > 1e-2
    mask = torch.tensor([[1] * 7 + [0] * 5])
    torch.testing.assert_close(ours(ids, mask)[:, :7], ours(later, mask)[:, :7], atol=1e-6, rtol=0)


def test_attention_maps_are_those_of_transformers() -> None:
    theirs, ids = their_model(attn_implementation="eager"), ids_of(2, 10)
    ours = GPT2.from_transformers(theirs)
    want = theirs(ids, output_attentions=True).attentions
    got = ours.attentions(ids)
    assert len(got) == len(want) == 3
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=0)  # weights are at most 1, float32


def test_round_trip_is_exact_and_shares_nothing() -> None:
    ours = GPT2(SMALL, seed=3).eval()
    theirs = ours.to_transformers()
    ids = ids_of(2, 20)
    torch.testing.assert_close(theirs(ids).logits, ours(ids), atol=CLOSE, rtol=0)
    again = GPT2.from_transformers(theirs)
    assert again.config == SMALL
    for name, p in ours.state_dict().items():
        assert torch.equal(p, again.state_dict()[name]), name
    with torch.no_grad():
        again.token.weight.zero_()
    assert theirs.transformer.wte.weight.abs().max() > 0


def test_saved_folder_loads_in_transformers(tmp_path: object) -> None:
    ours = GPT2(SMALL, seed=3).eval()
    ours.to_transformers().save_pretrained(tmp_path)
    theirs = GPT2LMHeadModel.from_pretrained(tmp_path).eval()
    ids = ids_of(2, 20)
    torch.testing.assert_close(theirs(ids).logits, ours(ids), atol=CLOSE, rtol=0)


def test_output_weights_are_tied_and_gradients_agree() -> None:
    """The token table gets gradient from both its uses, as in transformers."""
    theirs, ids = their_model(), ids_of(2, 16)
    ours = GPT2.from_transformers(theirs)
    ours.loss(ids).backward()  # type: ignore[no-untyped-call]
    theirs(ids, labels=ids).loss.backward()
    mine, other = ours.token.weight.grad, theirs.transformer.wte.weight.grad
    assert mine is not None
    assert other is not None
    torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-4)  # float32 sums over 30 positions
    unseen = sorted(set(range(101)) - set(ids.flatten().tolist()))[0]
    assert mine[unseen].abs().max() > 0, "an unseen token still learns through the output"
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


def test_what_transformers_can_and_we_cannot_is_refused() -> None:
    for changes in ({"activation_function": "silu"}, {"scale_attn_weights": False}, {"n_inner": 16}):
        with pytest.raises(HeedfulError, match=next(iter(changes))):
            GPT2.from_transformers(their_model(**changes))
    with pytest.raises(HeedfulError, match="solu"):
        GPT2(GPT2Config(11, 8, 1, 1, 8, activation="solu-ln")).to_transformers()


@pytest.mark.parametrize(("ours", "theirs"), [("relu", "relu"), ("gelu-exact", "gelu"), ("gelu", "gelu_new")])
def test_activations_convert_there_and_back(ours: str, theirs: str) -> None:
    model = GPT2(GPT2Config(11, 8, 1, 2, 8, activation=ours), seed=3).eval()
    for p in model.parameters():
        p.data.mul_(8)  # away from zero, where activations are alike
    other, ids = model.to_transformers(), torch.arange(8)[None]
    assert other.config.activation_function == theirs
    with torch.no_grad():
        torch.testing.assert_close(model(ids), other(ids).logits, atol=1e-4, rtol=1e-5)  # float32
        torch.testing.assert_close(GPT2.from_transformers(other)(ids), model(ids))


def test_too_long_is_an_error_and_next_logits_reads_the_tail() -> None:
    ours = GPT2(SMALL).eval()
    with pytest.raises(HeedfulError, match=r"33 tokens.* at most 32"):
        ours(ids_of(1, 33))
    ids = ids_of(2, 40)
    torch.testing.assert_close(ours.next_logits(ids), ours(ids[:, -32:])[:, -1], atol=1e-6, rtol=0)  # float32


def test_the_seed_makes_the_weights_and_only_them() -> None:
    before = torch.get_rng_state()
    a, b, c = GPT2(SMALL, seed=1), GPT2(SMALL, seed=1), GPT2(SMALL, seed=2)
    a.to_transformers()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(a.token.weight, b.token.weight)
    assert not torch.equal(a.token.weight, c.token.weight)


# Decoding with the model ------------------------------------------------------------------------------------


def hf(theirs: GPT2LMHeadModel, prompt: torch.Tensor, eos: int | None, **settings: object) -> object:
    return theirs.generate(
        prompt[None],
        attention_mask=torch.ones_like(prompt[None]),  # else it is guessed from the padding id
        do_sample=False,
        eos_token_id=eos,
        pad_token_id=0 if eos is None else eos,
        max_new_tokens=LONG,
        return_dict_in_generate=True,
        output_scores=True,
        **settings,
    )


def cut(row: torch.Tensor, start: int, eos: int | None) -> list[int]:
    """What transformers returns, without the padding after the end."""
    out = row.tolist()
    return out[: out.index(eos, start) + 1] if eos is not None and eos in out[start:] else out


@pytest.fixture(scope="module")
def pair() -> tuple[GPT2LMHeadModel, GPT2]:
    with torch.random.fork_rng(devices=[]):
        theirs = their_model(seed=5, spread=8.0).double()  # so that rounding decides no near tie
    return theirs, GPT2.from_transformers(theirs)


LONG = 8  # tokens to add
PROMPTS = [ids_of(n, seed=n) for n in (1, 4, 9)]


def likely_end(ours: GPT2, prompt: torch.Tensor) -> int:
    """A token that beam search meets half way, so that the end is reached by some beams and not by others."""
    return int(beam_search(ours.next_logits, prompt, 3, LONG)[0].ids[len(prompt) + 3])


@pytest.mark.parametrize("with_end", [False, True])
def test_greedy_as_generate(pair: tuple[GPT2LMHeadModel, GPT2], with_end: bool) -> None:
    theirs, ours = pair
    for prompt in PROMPTS:
        free = generate(ours.next_logits, prompt, "greedy", new_tokens=LONG)
        eos = int(free[len(prompt) + 3]) if with_end else None
        want = cut(hf(theirs, prompt, eos).sequences[0], len(prompt), eos)  # type: ignore[attr-defined]
        got = generate(ours.next_logits, prompt, "greedy", new_tokens=LONG, eos=eos).tolist()
        assert got == want
        assert (len(got) < len(free)) == with_end


@pytest.mark.parametrize("with_end", [False, True])
@pytest.mark.parametrize("beams", [1, 2, 3, 4, 5])
def test_beams_as_generate(pair: tuple[GPT2LMHeadModel, GPT2], beams: int, with_end: bool) -> None:
    """All beams, in order, with their scores: for three prompts and four length penalties."""
    theirs, ours = pair
    lengths, best = set(), set()
    for prompt in PROMPTS:
        eos = likely_end(ours, prompt) if with_end else None
        for penalty in (1.0, 0.0, 2.0, -0.5):
            got = beam_search(ours.next_logits, prompt, beams, LONG, eos, penalty)
            lengths |= {len(b.ids) - len(prompt) for b in got}
            best.add((len(prompt), tuple(got[0].ids.tolist())))
            if beams == 1:  # transformers runs greedy search then, which has no scores
                assert got[0].ids.tolist() == cut(hf(theirs, prompt, eos).sequences[0], len(prompt), eos)  # type: ignore[attr-defined]
                continue
            want = hf(
                theirs, prompt, eos, num_beams=beams, num_return_sequences=beams, length_penalty=penalty
            )
            assert [b.ids.tolist() for b in got] == [cut(r, len(prompt), eos) for r in want.sequences]  # type: ignore[attr-defined]
            scores = torch.tensor([b.score for b in got])
            torch.testing.assert_close(scores, want.sequences_scores, atol=1e-4, rtol=1e-5)  # type: ignore[attr-defined]
    assert (len(lengths) > 1) == with_end, "the end was to be met early by some"
    if with_end and beams > 2:
        assert len(best) > len(PROMPTS), "the length penalty was to change some answer"
