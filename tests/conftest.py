"""Tiny tokenizers of every kind and tiny random models of every family, built offline in milliseconds."""

from __future__ import annotations

import gc
import os

os.environ["HF_HUB_OFFLINE"] = "1"  # no test may reach the network through transformers
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Some virtual machines announce AMX but do not permit it: torch then dies in bfloat16 (illegal instruction).
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import settings
from tests import browsers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import nn

# until all tests are collected: no module of theirs is garbage, and looking for it takes a third of the time
gc.disable()

# the same examples at every run: a red build is then a change of ours, not a new draw
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

TEXT = "the cat sat on the mat. hello world!"
CORPUS = [
    "the cat sat on the mat. hello world! don't stop, a dog ran to the low house",
    "naïve café 你好世界 👨‍👩‍👧 שלום עולם not bad at all",
    "a  b\n\nc low login lower you are (very) good; the service is not bad",
]
PLAIN = [CORPUS[0]] * 20  # byte-level and byte-fallback tokenizers never saw the rest: they must fall back


def _fast(tokenizer: Tokenizer, **special: Any) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def _wordpiece() -> Any:
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    normalizer, splitter = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    # a written vocabulary: the WordPiece trainer gives another one in each process
    words = {w for line in CORPUS for w, _ in splitter.pre_tokenize_str(normalizer.normalize_str(line))}
    letters = {letter for word in words for letter in word}
    short = {word for word in words if len(word) <= 4}
    halves = {half for word in words - short for half in (word[:3], f"##{word[3:]}")}
    pieces = sorted(letters | {f"##{letter}" for letter in letters} | short | halves)
    vocabulary = {piece: index for index, piece in enumerate([*special, *pieces])}
    t = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizer, splitter
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    names = dict(
        zip(("unk_token", "cls_token", "sep_token", "pad_token", "mask_token"), special, strict=True)
    )
    return _fast(t, **names, model_input_names=["input_ids", "token_type_ids", "attention_mask"])


def _byte_level(*, prefix: bool = False, trim: bool = True, roberta: bool = False) -> Any:
    special = ["<s>", "</s>", "<pad>", "<mask>", "<unk>"] if roberta else ["<|endoftext|>"]
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=prefix), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=alphabet, special_tokens=special, show_progress=False
    )
    t.train_from_iterator(PLAIN, trainer)
    if not roberta:
        t.post_processor = processors.ByteLevel(trim_offsets=trim)
        return _fast(t, bos_token=special[0], eos_token=special[0], unk_token=special[0])
    t.post_processor = processors.RobertaProcessing(
        ("</s>", 1), ("<s>", 0), trim_offsets=trim, add_prefix_space=prefix
    )
    names = ("bos_token", "eos_token", "pad_token", "mask_token", "unk_token")
    return _fast(t, **dict(zip(names, special, strict=True)), cls_token="<s>", sep_token="</s>")


def _unigram() -> Any:
    # a written vocabulary: the Unigram trainer gives another one at each run
    words = sorted({"▁" + word for line in CORPUS for word in line.split()})
    letters = sorted({letter for word in words for letter in word})
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -20.0)]
    pieces += [(word, -4.0) for word in words if len(word) > 1] + [(letter, -8.0) for letter in letters]
    t = Tokenizer(models.Unigram(pieces, unk_id=2))
    t.normalizer, t.pre_tokenizer, t.decoder = (
        normalizers.NFKC(),
        pre_tokenizers.Metaspace(),
        decoders.Metaspace(),
    )
    t.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return _fast(t, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def _byte_fallback() -> Any:
    special = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
    t = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    pieces = special + [f"<0x{i:02X}>" for i in range(256)]
    t.train_from_iterator(
        PLAIN, trainers.BpeTrainer(vocab_size=310, special_tokens=pieces, show_progress=False)
    )
    t = _plain_bytes(t, special)
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    fast = _fast(
        t,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        additional_special_tokens=["<|im_start|>", "<|im_end|>"],
    )
    fast.chat_template = (
        "{{ bos_token }}{% for m in messages %}"
        "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
        "{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    return fast


def _plain_bytes(tokenizer: Tokenizer, special: list[str]) -> Tokenizer:
    """The same tokenizer with <0x..> as plain vocabulary: a user who types "<0x41>" does not get a byte."""
    import json

    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] in special]
    return Tokenizer.from_str(json.dumps(state))


TOKENIZERS: dict[str, Callable[[], Any]] = {
    "wordpiece": _wordpiece,
    "byte-level": _byte_level,
    "byte-level-prefix": lambda: _byte_level(prefix=True),
    "byte-level-untrimmed": lambda: _byte_level(trim=False),
    "roberta": lambda: _byte_level(roberta=True),
    "unigram": _unigram,
    "byte-fallback": _byte_fallback,
}


def _hf(kind: str, config: str, **settings: Any) -> nn.Module:
    import transformers

    return getattr(transformers, kind)(getattr(transformers, config)(**settings))  # type: ignore[no-any-return]


def _bert(kind: str = "BertForSequenceClassification", **more: Any) -> nn.Module:
    sizes = {"vocab_size": 220, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    wide = {
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "pad_token_id": 3,
        "initializer_range": 0.2,
    }
    return _hf(kind, "BertConfig", **(sizes | wide | more))


def _mean_pool() -> nn.Module:
    from heedful.models.mean_pool import MeanPoolClassifier, MeanPoolConfig

    return MeanPoolClassifier(
        MeanPoolConfig(
            vocab_size=220,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=64,
            pad_token_id=3,
            initializer_range=0.2,
            head_size=16,
            num_labels=3,
        )
    )


def _gpt2(kind: str) -> nn.Module:
    sizes = {"vocab_size": 330, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    return _hf(
        kind, "GPT2Config", **sizes, bos_token_id=0, eos_token_id=0, initializer_range=0.2, num_labels=3
    )


def _llama(kind: str) -> nn.Module:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    return _hf(
        kind,
        "LlamaConfig",
        **sizes,
        vocab_size=320,
        intermediate_size=64,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=0.2,
        num_labels=3,
    )


def _t5(kind: str) -> nn.Module:
    return _hf(
        kind,
        "T5Config",
        vocab_size=150,
        d_model=32,
        d_kv=8,
        num_layers=2,
        num_heads=4,
        d_ff=64,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
        num_labels=3,
    )


def _bart(kind: str) -> nn.Module:
    return _hf(
        kind,
        "BartConfig",
        vocab_size=330,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=64,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        decoder_start_token_id=1,
        init_std=0.2,
        scale_embedding=True,
        forced_eos_token_id=None,
        num_labels=3,
    )


LABELS = {"id2label": {0: "negative", 1: "positive"}, "label2id": {"negative": 0, "positive": 1}}
FAMILIES: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "bert": ("wordpiece", lambda: _bert(**LABELS)),
    "bert-multi": ("wordpiece", lambda: _bert(num_labels=3, problem_type="multi_label_classification")),
    "bert-regression": ("wordpiece", lambda: _bert(num_labels=1)),
    "mean-pool": ("wordpiece", _mean_pool),
    "distilbert": (
        "wordpiece",
        lambda: _hf(
            "DistilBertForSequenceClassification",
            "DistilBertConfig",
            vocab_size=220,
            dim=32,
            n_layers=2,
            n_heads=4,
            hidden_dim=64,
            max_position_embeddings=64,
            pad_token_id=3,
            initializer_range=0.2,
        ),
    ),
    "roberta": (
        "roberta",
        lambda: _hf(
            "RobertaForSequenceClassification",
            "RobertaConfig",
            vocab_size=330,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=66,
            pad_token_id=2,
            bos_token_id=0,
            eos_token_id=1,
            initializer_range=0.2,
        ),
    ),
    "gpt2": ("byte-level", lambda: _gpt2("GPT2LMHeadModel")),
    "gpt2-classifier": ("byte-level", lambda: _gpt2("GPT2ForSequenceClassification")),
    "llama": ("byte-fallback", lambda: _llama("LlamaForCausalLM")),
    "llama-classifier": ("byte-fallback", lambda: _llama("LlamaForSequenceClassification")),
    "t5": ("unigram", lambda: _t5("T5ForConditionalGeneration")),
    "t5-classifier": ("unigram", lambda: _t5("T5ForSequenceClassification")),
    "bart": ("roberta", lambda: _bart("BartForConditionalGeneration")),
    "bart-classifier": ("roberta", lambda: _bart("BartForSequenceClassification")),
}


@dataclass(frozen=True)
class Family:
    """A transformers model, its tokenizer, and the same two behind heedful's door."""

    name: str
    hf: Any
    tokenizer: Any
    model: Any

    def x(self, text: Any = TEXT) -> Any:
        return self.model.encode(text)


@cache
def _tokenizer(name: str) -> Any:
    return TOKENIZERS[name]()


def _family(name: str) -> Family:
    from heedful.models.load import load

    tokenizer_name, build = FAMILIES[name]
    with torch.random.fork_rng():
        torch.manual_seed(sum(map(ord, name)))
        hf = build().eval()
    tokenizer = _tokenizer(tokenizer_name)
    return Family(name, hf, tokenizer, load((hf, tokenizer)))


_shared = cache(_family)


def pytest_collection_finish() -> None:
    """From here on garbage is looked for, but not among the modules and tests that are loaded."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Without a browser, tests that need one are skipped, or fail where it is required."""
    needed = item.get_closest_marker("browser") or "browser" in getattr(item, "fixturenames", ())
    if needed and not browsers.CHROMIUM:
        if browsers.required():
            pytest.fail(f"{browsers.REASON}. {browsers.FIX}", pytrace=False)
        pytest.skip(browsers.REASON)


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line of the run says how many browser tests were skipped, and what to do."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", []) if reporter else []
    if skipped := sum(browsers.REASON in str(report.longrepr) for report in reports):
        reporter.write_line(browsers.summary(skipped))


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def text() -> str:
    return TEXT


@pytest.fixture(scope="session")
def tokenizer_of() -> Callable[[str], Any]:
    """Name -> tokenizer, shared by the session."""
    return _tokenizer


@pytest.fixture(params=list(TOKENIZERS), scope="session")
def tokenizer(request: pytest.FixtureRequest) -> Any:
    """Every kind of tokenizer."""
    return _tokenizer(request.param)


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Family]:
    """Name -> family, one for the session: heedful leaves models untouched, so tests can share them."""
    return _shared


@pytest.fixture(scope="session")
def fresh() -> Callable[[str], Family]:
    """Name -> family of one's own, to break as one likes."""
    return _family


@pytest.fixture(params=list(FAMILIES), scope="session")
def family(request: pytest.FixtureRequest) -> Family:
    """Every family of models."""
    return _shared(request.param)
