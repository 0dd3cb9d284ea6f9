"""Byte-pair encoding against `tokenizers`: same merges, same ids; GPT-2's ids with GPT-2's merges."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from heedful.core.errors import HeedfulError
from heedful.nn import BPE, train_bpe
from heedful.nn.bpe import byte_alphabet

DATA = Path(__file__).parent / "data"
SENTENCES = gzip.decompress((DATA / "sotu-sentences.txt.gz").read_bytes()).decode().splitlines()
ODD = [
    "a\u0301e\u0301 naïve ﬁ",
    "👩‍👩‍👧 🇫🇷🏳️‍🌈",
    "nul\x00nul",
    "עִבְרִית العربية",
    "日本語テキスト",
    "  \n\t x\u00a0y\u2003z ",
    "Ⅻ ½ ٣",
]
CORPORA = {
    "textbook": ["low login"],
    "repeats": ["aaaa aaa aa a", "abababab baba", "aaaaaaaaaaaaaaa"],
    "ties": ["ab cd ef gh", "ba dc fe hg"],
    "overlaps": ["abc abc abc bc bc ab ab abcabc cab", "xabc bcx abx"],
    "speeches": SENTENCES[:150],
    "odd": ODD * 3 + SENTENCES[:20],
}


def tokenizers_trained(texts: list[str], size: int, byte_level: bool, specials: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    alphabet: list[str] = []
    if byte_level:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\s+"), "isolated")
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def learnt(tokenizer: Tokenizer) -> tuple[dict[str, int], list[tuple[str, str]]]:
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(m) for m in model["merges"]]


@pytest.mark.parametrize("byte_level", [True, False])
@pytest.mark.parametrize("name", CORPORA)
def test_training_as_tokenizers(name: str, byte_level: bool) -> None:
    texts = CORPORA[name]
    alphabet = 256 if byte_level else len({c for t in texts for c in t})
    for more in (2, 13, 400):
        size = alphabet + 1 + more
        ours = train_bpe(texts, size, byte_level, specials=["<s>"])
        theirs = tokenizers_trained(texts, size, byte_level, ["<s>"])
        vocab, merges = learnt(theirs)
        assert list(ours.merges) == merges
        assert ours.vocab == vocab
        for text in texts:
            assert ours.encode(text) == theirs.encode(text).ids
            assert ours.decode(ours.encode(text)) == text


def test_the_textbook_example_step_by_step() -> None:
    """('low', 'login'): l-o twice, every other pair once; then the ties in the order of ids."""
    bpe = train_bpe(["low login"], vocab_size=100, byte_level=False)
    assert bpe.merges[0] == ("l", "o")
    start = sorted({*"low login"})
    assert [bpe.symbols[i] for i in range(len(start))] == start
    one = train_bpe(["low login"], vocab_size=len(start) + 1, byte_level=False)
    assert one.merges == (("l", "o"),)
    assert [one.symbols[i] for i in one.encode("low")] == ["lo", "w"]
    assert [one.symbols[i] for i in one.encode("login")] == ["lo", "g", "i", "n"]
    assert one.decode(one.encode("low login")) == "low login"
    whole = [bpe.symbols[i] for i in bpe.encode("low login")]
    assert whole == ["low", " ", "login"], "with enough merges each word is one symbol"


def test_a_special_spelt_like_a_merge_keeps_its_id() -> None:
    ours = train_bpe(["low login"], 30, byte_level=False, specials=["<s>", "lo"])
    vocab, merges = learnt(tokenizers_trained(["low login"], 30, False, ["<s>", "lo"]))
    assert ours.vocab["lo"] == 1
    assert ours.vocab == vocab
    assert list(ours.merges) == merges


def test_min_count_stops_the_training() -> None:
    assert train_bpe(["low login"], 100, byte_level=False, min_count=2).merges == (("l", "o"),)
    assert train_bpe(["low login"], 100, byte_level=False, min_count=3).merges == ()


def test_an_unseen_character_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(HeedfulError, match="'z' was not in the training text"):
        train_bpe(["low login"], 100, byte_level=False).encode("zoo")


@pytest.fixture(scope="module")
def gpt2_files() -> tuple[dict[str, int], list[tuple[str, str]]]:
    vocab = json.loads(gzip.decompress((DATA / "gpt2-vocab.json.gz").read_bytes()))
    lines = gzip.decompress((DATA / "gpt2-merges.txt.gz").read_bytes()).decode().splitlines()[1:]
    return vocab, [(a, b) for a, b in (line.split(" ") for line in lines)]


@pytest.fixture(scope="module")
def gpt2(gpt2_files: tuple[dict[str, int], list[tuple[str, str]]]) -> BPE:
    return BPE.from_merges(gpt2_files[1])


@pytest.fixture(scope="module")
def oracle(gpt2_files: tuple[dict[str, int], list[tuple[str, str]]]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(vocab=gpt2_files[0], merges=gpt2_files[1]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def test_gpt2s_numbering_follows_from_its_merges(
    gpt2: BPE, gpt2_files: tuple[dict[str, int], list[tuple[str, str]]]
) -> None:
    assert gpt2.vocab == gpt2_files[0]
    assert len(gpt2.vocab) == 50257
    assert gpt2.vocab["<|endoftext|>"] == 50256


def test_gpt2s_ids_on_a_thousand_sentences(gpt2: BPE, oracle: Tokenizer) -> None:
    assert len(SENTENCES) == 1000
    for text in SENTENCES:
        ids = gpt2.encode(text)
        assert ids == oracle.encode(text).ids
        assert gpt2.decode(ids) == text
    assert gpt2.encode("Hello world") == [15496, 995]  # as everyone knows them
    assert gpt2.encode(" don't") == [836, 470]


@settings(deadline=None, max_examples=150, derandomize=True)
@given(st.text(max_size=60))
@example("a\u0301\u0301 e\u0301")
@example("👩‍👩‍👧‍👦 🇫🇷 é👍🏽")
@example("nul\x00 \x00\x00")
@example("'re'S'll I'LL  don't\n\n\n  end ")
@example("x\u00a0\u2003 \x1c\x1d\x85y")
@example("<|endoftext|>")
@example("")
def test_gpt2s_ids_on_any_text(gpt2: BPE, oracle: Tokenizer, text: str) -> None:
    ids = gpt2.encode(text)
    assert ids == oracle.encode(text).ids
    assert gpt2.decode(ids) == text == oracle.decode(ids, skip_special_tokens=False)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.lists(st.text(alphabet=st.sampled_from("ab é👍\u0301\x00\n"), max_size=20), min_size=1, max_size=5))
def test_training_as_tokenizers_on_any_text(texts: list[str]) -> None:
    ours, theirs = train_bpe(texts, 280), tokenizers_trained(texts, 280, True, [])
    vocab, merges = learnt(theirs)
    assert list(ours.merges) == merges
    assert ours.vocab == vocab
    for text in texts:
        assert ours.encode(text) == theirs.encode(text).ids
        assert ours.decode(ours.encode(text)) == text


def test_the_byte_alphabet_is_that_of_tokenizers() -> None:
    assert sorted(byte_alphabet().values()) == sorted(pre_tokenizers.ByteLevel.alphabet())
    assert byte_alphabet()[ord(" ")] == "Ġ"
    assert byte_alphabet()[ord("\n")] == "Ċ"


def test_half_a_character_decodes_to_the_replacement_sign(gpt2: BPE) -> None:
    ids = gpt2.encode("👩")
    assert len(ids) > 1
    assert "\ufffd" in gpt2.decode(ids[:-1])
    with pytest.raises(UnicodeDecodeError):
        gpt2.decode(ids[:-1], errors="strict")
    assert gpt2.decode([50256]) == "<|endoftext|>"
