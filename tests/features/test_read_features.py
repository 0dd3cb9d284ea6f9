"""What features fire on, against brute force over the whole corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.features.planted import TEXTS, on_tokens, random_sae

from heedful.core.errors import HeedfulError
from heedful.features.activations.windows import TextSource, cut_for, open_texts, windows
from heedful.features.reading import collect as module
from heedful.features.reading.collect import cut_in
from heedful.features.reading.examples import Context, Snippet
from heedful.features.reading.read_features import Stream, read_features
from heedful.features.reading.reservoir import Histograms, TopItems
from heedful.features.reading.select import FiringRates, among, parse
from heedful.models.backend import Inputs
from heedful.models.sites.access import reading as looking
from heedful.models.spell_tokens import pieces_of, spelled

SITE = "blocks.1.resid"
Shared = Callable[[str], Any]


@pytest.fixture(scope="module")
def gpt2(shared: Shared) -> Any:
    return shared("gpt2").model


@pytest.fixture(scope="module")
def brute(gpt2: Any) -> list[tuple[list[int], torch.Tensor]]:
    """(ids, activations (T, F)) a window, one at a time, by another door than the one under test."""
    sae = random_sae(32, 24, SITE)
    cut = cut_for(gpt2, 32, None, True)
    out = []
    for window in windows(TextSource(open_texts(TEXTS, "text")), gpt2, cut):
        ids = torch.from_numpy(window.ids)[None]
        with looking(gpt2, [SITE]) as seen, torch.no_grad():
            gpt2.backend.forward(Inputs(ids, torch.ones_like(ids)))
        values = torch.relu(seen[SITE][0] @ sae.W_enc + sae.b_enc)
        values[~torch.from_numpy(window.keep)] = 0
        out.append((window.ids.tolist(), values))
    return out


@pytest.fixture(scope="module")
def found(gpt2: Any) -> Any:
    return read_features(gpt2, random_sae(32, 24, SITE), TEXTS, list(range(8)), context=32, examples=5)


def test_rates_maxima_and_histograms_are_those_of_brute_force(found: Any, brute: Any):
    values = torch.cat([v for _, v in brute])
    assert sum(r.fired for r in found) > 0
    for r in found:
        own = values[:, r.feature]
        assert r.fired == int((own > 0).sum())
        assert r.greatest == pytest.approx(float(own.max()), rel=1e-4)
        if r.fired:
            counts, _ = np.histogram(own[own > 0].numpy(), bins=np.array(r.edges))
            # a value may round to the other side of an edge: the pass under test batches windows
            assert np.abs(counts - np.array(r.counts)).sum() <= 2
            assert sum(r.counts) == r.fired


def test_tops_are_the_strongest_windows(found: Any, brute: Any):
    for r in found:
        best = sorted((float(v[:, r.feature].max()) for _, v in brute), reverse=True)[:5]
        assert [s.value for s in r.top] == pytest.approx([b for b in best if b > 0], rel=1e-4)
        assert len({s.window for s in r.top}) == len(r.top)
        for s in r.top:
            assert list(s.whole) in [ids for ids, _ in brute]
            assert s.whole[s.position] == s.context.ids[s.at]


def test_snippets_show_what_stands_around_the_marked_token(found: Any, brute: Any):
    by_ids = {tuple(ids): v for ids, v in brute}
    r = max(found, key=lambda r: r.fired)
    for s in r.top:
        values = by_ids[s.whole][s.context.first : s.context.first + len(s.context), r.feature]
        assert s.values == pytest.approx(values.tolist(), abs=1e-4)
        assert s.context.ids == s.whole[s.context.first : s.context.first + len(s.context)]
        assert s.at == min(s.position, module.TOKENS_BEFORE)


def test_the_sample_is_of_firings_and_silence_of_silence(found: Any):
    for r in found:
        assert all(s.value > 0 for s in r.sample)
        assert all(s.value == 0 for s in r.silent)
        assert len(r.sample) == min(r.fired, 400)
        assert len(r.silent) == min(r.tokens - r.fired, 400)


def test_quantiles_cover_all_activations_evenly(gpt2: Any):
    """Not the strongest ones: each tenth of the activations gives its own examples."""
    sae = random_sae(32, 24, SITE)
    r = max(read_features(gpt2, sae, TEXTS, list(range(8)), context=32, a_quantile=3), key=lambda r: r.fired)
    assert r.fired > 300
    values = sorted(s.value for s in r.sample)
    assert len(r.quantiles) == 10
    assert r.quantiles[0].low == values[0]
    assert r.quantiles[-1].high == values[-1]
    for q, following in zip(r.quantiles, r.quantiles[1:], strict=False):
        assert len(q.examples) == 3
        assert q.high <= following.low
        assert all(q.low <= s.value <= q.high for s in q.examples)
    for number, q in enumerate(r.quantiles):  # each holds a tenth of the sample
        inside = [v for v in values if q.low <= v <= q.high]
        assert len(inside) == pytest.approx(len(values) / 10, abs=2), number


def test_the_sample_is_uniform_over_places():
    """Over 400 seeds each of 50 places is kept equally often (chi-squared, 49 degrees of freedom)."""
    times: Counter[int] = Counter()
    for seed in range(400):
        best: TopItems[int] = TopItems(10)
        for place, key in enumerate(np.random.default_rng(seed).random(50)):
            best.offer(-float(key), lambda p=place: p)  # type: ignore[misc]
        times.update(best.items())
    expected = 400 * 10 / 50
    assert sum(times.values()) == 4000
    assert sum((times[p] - expected) ** 2 / expected for p in range(50)) < 85.4  # p = 0.001


def test_examples_of_a_quantile_are_a_draw_and_not_its_strongest():
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(200):
        sample = [Snippet(Context((1,), ("a",)), (float(v),), 0) for v in rng.random(100)]
        part = cut_in(sample, 10, 1)[9]
        ranked = sorted((s.value for s in sample), reverse=True)[:10]
        shares.append(ranked.index(part.examples[0].value))
    assert np.mean(shares) == pytest.approx(4.5, abs=0.7)  # sd of the mean: 0.2


def test_same_seed_same_readings(gpt2: Any):
    sae = random_sae(32, 24, SITE)
    one, again, other = (
        read_features(gpt2, sae, TEXTS, choose="random:3", context=32, seed=s, quantiles=2) for s in (1, 1, 2)
    )
    assert one == again
    assert one.features != other.features


def test_planted_features_are_read(shared: Shared):
    llama = shared("llama").model
    cat, the = read_features(llama, on_tokens(llama, ["cat", "▁the▁"]), TEXTS, [0, 1])
    assert {s.context.pieces[s.at] for s in cat.sample} == {"cat"}
    assert {s.context.pieces[s.at].strip() for s in the.sample} == {"the"}
    assert cat.fired == 18  # a text has it or not: three of four, six times
    assert all(s.context.pieces[s.at] != "cat" for s in cat.silent)


def test_rows_end_the_reading(gpt2: Any):
    r = read_features(gpt2, random_sae(32, 4, SITE), TEXTS, [0, 1], rows=50)
    assert r.features[0].tokens == 50
    assert r.settings["tokens"] == 50


def test_padded_classifiers_show_no_padding(shared: Shared):
    model = shared("bert").model
    sae = random_sae(32, 8, SITE)
    readings = read_features(model, sae, ["the cat sat", "hello world! the dog ran to the low house"], [0, 1])
    tokens = sum(
        len(model.tokenizer(t, add_special_tokens=False).input_ids)
        for t in ["the cat sat", "hello world! the dog ran to the low house"]
    )
    assert readings.features[0].tokens == tokens
    for r in readings:
        for s in (*r.top, *r.silent):
            assert 3 not in s.context.ids  # [PAD]
            assert s.context.ids[s.at] not in (1, 2)  # [CLS], [SEP] are not read


# --- rules that choose ----------------------------------------------------------------------------


def test_rules_choose_what_they_say():
    firing = FiringRates(np.array([0, 5, 9, 1, 7]), np.array([0.0, 1.0, 2.0, 8.0, 3.0]), 10)
    lengths = np.array([1.0, 1.0, 1.0, 0.1, 1.0])
    assert among(parse("most-active:2"), firing, lengths, 0) == [2, 4]
    assert among(parse("strongest:2"), firing, lengths, 0) == [4, 2]
    assert among(parse("spread:3"), firing, lengths, 0) == [3, 4, 2]
    drawn = Counter(f for seed in range(300) for f in among(parse("random:2"), firing, lengths, seed))
    assert set(drawn) == {1, 2, 3, 4}
    assert all(count == pytest.approx(150, abs=35) for count in drawn.values())  # sd 8.7
    assert 0 in {f for seed in range(20) for f in among(parse("any:2"), firing, lengths, seed)}


@pytest.mark.parametrize("rule", ["best", "random:0", "random:x", "random:-1"])
def test_other_rules_are_refused(rule: str):
    with pytest.raises(HeedfulError, match="cannot be chosen"):
        parse(rule)


def test_what_cannot_be_read_is_refused(gpt2: Any):
    sae = random_sae(32, 4, SITE)
    for features in ([4], [-1], []):
        with pytest.raises(HeedfulError, match="numbered 0 to 3"):
            read_features(gpt2, sae, TEXTS, features)
    with pytest.raises(HeedfulError, match="once only"):
        read_features(gpt2, sae, iter(TEXTS))
    with pytest.raises(HeedfulError, match="no texts"):
        read_features(gpt2, sae, ["  "], [0])
    with pytest.raises(HeedfulError, match="width 32"):
        read_features(gpt2, random_sae(16, 4, SITE), TEXTS, [0])
    with pytest.raises(HeedfulError, match="which site"):
        read_features(gpt2, random_sae(32, 4, ""), TEXTS, [0])


# --- small parts ----------------------------------------------------------------------------------


def test_histograms_are_exact_whatever_the_order():
    rng = np.random.default_rng(0)
    values = np.maximum(rng.standard_normal((500, 3)) * [1e-3, 1.0, 50.0], 0).astype(np.float32)
    whole = Histograms.empty(3)
    for part in np.array_split(values, 37):
        whole.add(part)
    for f in range(3):
        edges = whole.edges(f)
        own = values[:, f][values[:, f] > 0]
        assert whole.counts[f].tolist() == np.histogram(own, bins=edges)[0].tolist()
        assert edges[-1] / 2 <= own.max() < edges[-1]


@pytest.mark.parametrize("text", ["the naïve café 你好世界 👨‍👩‍👧 dog", "שלום hello", "a\n\nb  c"])
def test_pieces_join_to_the_text(tokenizer_of: Callable[[str], Any], text: str):
    for name in ("byte-level", "byte-fallback"):
        tokenizer = tokenizer_of(name)
        ids = tokenizer(text, add_special_tokens=False).input_ids
        pieces = pieces_of(tokenizer, ids)
        assert len(pieces) == len(ids)
        assert "".join(pieces) == tokenizer.decode(ids)
        assert "\ufffd" not in "".join(pieces)


def test_bytes_that_nothing_completes_are_spelled(tokenizer_of: Callable[[str], Any]):
    for name in ("byte-level", "byte-fallback"):
        tokenizer = tokenizer_of(name)
        ids = tokenizer("世", add_special_tokens=False).input_ids[-3:]  # E4 B8 96
        assert [spelled(tokenizer, token) for token in ids] == ["<0xE4>", "<0xB8>", "<0x96>"]
        assert pieces_of(tokenizer, ids) == ("", "", "世")
        assert pieces_of(tokenizer, ids[1:]) == ("<0xB8>", "<0x96>")  # a context cut inside a character
        assert pieces_of(tokenizer, ids[:2]) == ("<0xE4>", "<0xB8>")


def test_a_token_of_letters_and_half_a_character(tokenizer_of: Callable[[str], Any]):
    class Mixed:
        def decode(self, ids: list[int], **_: Any) -> str:
            return " \ufffd"

        def convert_ids_to_tokens(self, token: int) -> str:
            return "ĠÃ"

    assert spelled(Mixed(), 0) == " <0xC3>"


def test_long_texts_join_too(tokenizer_of: Callable[[str], Any]):
    tokenizer = tokenizer_of("byte-level")
    text = " ".join(TEXTS[:4]) + " 你好世界 " * 20
    ids = tokenizer(text).input_ids
    assert "".join(pieces_of(tokenizer, ids)) == text


def test_nothing_is_left_in_the_model(gpt2: Any):
    parts = list(gpt2.module.modules())
    hooks = [(list(m._forward_hooks), list(m._forward_pre_hooks)) for m in parts]
    stream = Stream(gpt2, random_sae(32, 4, SITE), TEXTS, SITE, None, None, "text", None)
    for _ in stream.passes([0], "reading"):
        pass
    assert [(list(m._forward_hooks), list(m._forward_pre_hooks)) for m in parts] == hooks
