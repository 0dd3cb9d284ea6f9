"""The tokenizer of a stranger is a program: one that never ends or fills the memory is refused or told."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import transformers
from tests.attack import hostile_models as hostile
from tests.server.serving import finished, listening
from tokenizers import Regex
from tokenizers.normalizers import Replace

import heedful
from heedful.cli.main import main
from heedful.core.errors import HeedfulError
from heedful.modalities import limited_copy, tokenizer_calls
from heedful.models import hf_load
from heedful.models.tokenizer_steps import MAX_STEPS, check_steps, has_slow_pattern
from heedful.server import app


@pytest.fixture
def folder(tmp_path: Path, shared: Callable[[str], Any]) -> Path:
    """Whose tokenizer.json is used as it stands."""
    path = hostile.sound(tmp_path / "bert", shared("bert"))
    hostile.edit("tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")(path)
    return path


def replaced(pattern: str, content: str, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def sequence(*steps: Any) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(steps)}


def table(*texts: str) -> str:
    """As sentencepiece stores what characters become."""
    return base64.b64encode((4).to_bytes(4, "little") + b"\0" * 4 + "\0".join(texts).encode()).decode()


SPACES = replaced(" ", " " * 1000)
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BOMBS: dict[str, dict[str, Any]] = {
    "three times a thousand": {"normalizer": sequence(SPACES, SPACES, SPACES)},
    "twenty-four times two": {"normalizer": sequence(*[replaced("a", "aa")] * 24)},
    "sequences in sequences": {"normalizer": sequence(sequence(sequence(SPACES)))},
    "between characters": {"normalizer": sequence(*[replaced("(?=a)|", "a", "Regex")] * 24)},
    "before every text": {"normalizer": {"type": "Prepend", "prepend": "x" * 1000}},
    "a table": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": table("x" * 1000)}},
    "bytes of bytes": {"normalizer": sequence(*[{"type": "ByteLevel"}] * 24)},
    "in two places": {
        "normalizer": replaced("a", "a" * 40),
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTES]},
    },
    "a decoder": {"decoder": {"type": "Sequence", "decoders": [replaced("a", "a" * 1000)]}},
    "many steps": {"normalizer": sequence(*[{"type": "NFC"}] * (MAX_STEPS + 1))},
    "many copies": {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 90,
            "pair": [],
            "special_tokens": {},
        }
    },
}
REAL: dict[str, dict[str, Any]] = {
    "BERT": {
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
    },
    "GPT-2": {"normalizer": None, "pre_tokenizer": BYTES, "decoder": BYTES, "post_processor": BYTES},
    "Llama": {
        "normalizer": sequence({"type": "Prepend", "prepend": "▁"}, replaced(" ", "▁")),
        "pre_tokenizer": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                replaced("▁", " "),
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
    },
    "Gemma": {"normalizer": replaced(" ", "▁"), "decoder": sequence(replaced("▁", " "))},
    "ALBERT, with the table of T5": {
        "normalizer": sequence(
            replaced("``", '"'),
            replaced("''", '"'),
            {"type": "NFKD"},
            {"type": "StripAccents"},
            {"type": "Lowercase"},
            {"type": "Precompiled", "precompiled_charsmap": table("x" * 18, "1")},
            replaced(" {2,}", " ", "Regex"),
        ),
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "WhitespaceSplit"},
                {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
            ],
        },
    },
    "CLIP": {
        "normalizer": sequence({"type": "NFC"}, replaced(r"\s+", " ", "Regex"), {"type": "Lowercase"}),
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split"}, BYTES]},
        "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]},
    },
    "DeepSeek": {
        "normalizer": sequence(),
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [*[{"type": "Split"}] * 4, {"type": "Digits"}, BYTES],
        },
    },
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_tokenizer_that_grows_without_bound_is_refused(name: str) -> None:
    with pytest.raises(HeedfulError, match=r"the tokenizer of a model is not used.* (longer|steps)"):
        check_steps("a model", BOMBS[name])


@pytest.mark.parametrize("name", REAL)
def test_the_shapes_of_real_tokenizers_pass(name: str) -> None:
    check_steps("a model", REAL[name])


@pytest.mark.parametrize("name", ["three times a thousand", "twenty-four times two"])
def test_it_is_refused_before_it_runs(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An added token would be normalised while the tokenizer is built."""
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lambda *_, **__: pytest.fail("built"))
    hostile.pieces(lambda facts: facts.update(BOMBS[name]))(folder)
    with pytest.raises(HeedfulError, match="times longer") as caught:
        heedful.load(str(folder))
    assert "\n" not in str(caught.value)


def test_a_tokenizer_from_another_file_is_looked_at_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tokenizer_config.json may name a file of another version, in another folder."""
    hostile.edit("tokenizer_config.json", fast_tokenizer_files=["tokenizer.4.0.0.json"])(folder)
    facts = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.4.0.0.json").write_text(json.dumps(facts | {"normalizer": SPACES}))
    with pytest.raises(HeedfulError, match="times longer"):
        hf_load.load_tokenizer(folder, {})
    monkeypatch.setattr("heedful.models.tokenizer_steps.check_files", lambda *_: None)  # as if from elsewhere
    with pytest.raises(HeedfulError, match="times longer"):
        hf_load.load_tokenizer(folder, {})


def test_a_tokenizer_in_the_hubs_cache_is_looked_at_too(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    hostile.pieces(lambda facts: facts.update(BOMBS["twenty-four times two"]))(folder)
    place = tmp_path / "hub" / "models--someone--model"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("a" * 40)
    shutil.copytree(folder, place / "snapshots" / ("a" * 40))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lambda *_, **__: pytest.fail("built"))
    with pytest.raises(HeedfulError, match="times longer"):
        hf_load.load_tokenizer("someone/model", {"local_files_only": True})


# --- patterns that take too many steps -----------------------------------------------------------------

SLOW = {"type": "Split", "pattern": {"Regex": "(a+a+)+(a+a+)+b"}, "behavior": "Isolated", "invert": False}
PANICS = "a" * 36 + "! good"
TOLD = "the tokenizer failed on this text: Onig: Regex search error"


def test_a_pattern_that_gives_up_is_one_sentence(folder: Path) -> None:
    hostile.pieces(lambda facts: facts.update(pre_tokenizer=SLOW))(folder)
    model = heedful.load(str(folder))
    for given in (PANICS, (PANICS, "b")):
        with pytest.raises(HeedfulError, match=TOLD):
            heedful.explain(model, given, ["grad-l2"], evidence=False)
    with pytest.raises(HeedfulError, match=TOLD):
        model.encode_many([PANICS], 8)
    assert model.encode("the cat")  # the next text is read


def test_a_pattern_that_gives_up_is_one_line_of_the_command(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile.pieces(lambda facts: facts.update(pre_tokenizer=SLOW))(folder)
    assert main(["explain", PANICS, "--model", str(folder), "-q"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"heedful: {TOLD}")
    assert "Traceback" not in err


def test_a_decoder_that_gives_up_is_one_sentence(folder: Path) -> None:
    """Of a tokenizer that the user loaded; see the next test."""
    change = replaced("(a+a+)+(a+a+)+b", "x", "Regex")
    hostile.pieces(lambda facts: facts.update(decoder=change))(folder)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    name = "a" * 36
    tokenizer.add_tokens([name])
    with pytest.raises(HeedfulError, match="the tokenizer failed on this list of tokens"):
        tokenizer_calls.decoded(tokenizer, [tokenizer.convert_tokens_to_ids(name)])


def test_a_decoder_that_may_never_end_is_refused(folder: Path) -> None:
    """While it writes a text, no other thread runs, and no interrupt is seen."""
    change = {"type": "Sequence", "decoders": [replaced("(a|a)*b", "x", "Regex")]}
    hostile.pieces(lambda facts: facts.update(decoder=change))(folder)
    with pytest.raises(
        HeedfulError, match="is not used: its decoder has a pattern that may take hours for some texts"
    ):
        heedful.load(str(folder))


# as they are in decoders and normalizers of real tokenizers, and some more
QUICK_PATTERNS = [
    *(
        " {2,}",
        "▁",
        r"\s+",
        "[\u0300-\u036f]",
        r"a\.b*",
        "[ab]{2,3}",
        " ?",
        "^ ",
        r"(?<!\n)^ ",
        r"^\s+",
        "(▁)",
    ),
    *("</w>|▁", r"\p{P}", r"[\r\n\t]", r"[^\w\s]", "a$", "ab+|ac*", "(?:ab)c{0,99}"),
]
SLOW_PATTERNS = [
    *("", "(a+)+b", "a+b", "a*a*", "(a|a)*", "a{1000}", "a{2,}b", "a++", " +$", "(a+)", "(?=a)", r"(a)\1"),
    "[ab]" * 60,
]


@pytest.mark.parametrize("pattern", QUICK_PATTERNS)
def test_patterns_that_go_over_a_text_once_are_no_risk(pattern: str) -> None:
    assert not has_slow_pattern(sequence(replaced(pattern, "x", "Regex")))
    step = Replace(Regex(pattern), "x")
    began = time.process_time()
    for text in (" ", "a", "ab", "▁", "\n ", "a.b", "abc"):
        step.normalize_str(text * (200_000 // len(text)))
    assert time.process_time() - began < 10  # what goes over it again for each letter takes minutes


@pytest.mark.parametrize("pattern", SLOW_PATTERNS)
def test_other_patterns_are(pattern: str) -> None:
    assert has_slow_pattern(sequence(replaced(pattern, "x", "Regex")))


def test_a_pattern_that_gives_up_is_one_sentence_of_the_page(folder: Path, tmp_path: Path) -> None:
    hostile.pieces(lambda facts: facts.update(pre_tokenizer=SLOW))(folder)
    model = heedful.load(str(folder))
    config = app.ServerConfig(runs=tmp_path / "runs")
    state = app.load_state([model], config)
    sent = {"model": model.name, "text": PANICS}
    with listening(state, config) as address, httpx.Client(base_url=address, timeout=60) as client:
        answer = client.post("/api/look", json=sent | {"methods": ["grad-l2"]})
        assert (answer.status_code, answer.json()["error"].startswith(TOLD)) == (400, True), answer.text
        answer = client.post("/api/jobs/explain", json=sent)
        error = finished(client, answer.json()) if answer.status_code == 202 else answer.json()
        assert error["error"].startswith(TOLD), error
        assert client.post("/api/look", json=sent | {"text": "the cat"}).status_code == 200
    state.close()
    state.jobs.join()


# --- patterns that stay below the limit and take hours in all -------------------------------------------

DRIPS = " ".join(["a" * 19 + "!"] * 400)  # about 15 ms for each word


def test_a_pattern_that_takes_too_long_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile.pieces(lambda facts: facts.update(pre_tokenizer=SLOW))(folder)
    model = heedful.load(str(folder))
    monkeypatch.setattr(tokenizer_calls, "MAX_SECONDS", 0.2)
    with pytest.raises(HeedfulError, match=r"the tokenizer took over \d+ s on this text\. Use another text"):
        model.encode(DRIPS)
    monkeypatch.undo()
    assert model.encode("the cat")  # the next text is read


@pytest.mark.parametrize("place", ["tokenizer.json", "tokenizer_config.json"])
def test_a_tokenizer_that_is_not_built_in_time_is_refused(
    place: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Added tokens are normalised while it is built, whichever file they are in."""
    change = {"normalizer": replaced("(a+a+)+(a+a+)+b", "x", "Regex")}
    hostile.pieces(lambda facts: facts.update(change))(folder)
    added = {"content": DRIPS, "single_word": False, "lstrip": False, "rstrip": False}
    added |= {"normalized": True, "special": False}
    if place == "tokenizer.json":
        hostile.pieces(lambda facts: facts["added_tokens"].append({"id": 1000, **added}))(folder)
    else:
        hostile.edit(place, added_tokens_decoder={"1000": added})(folder)
    monkeypatch.setattr(limited_copy, "MAX_SECONDS", 1)
    here, real = os.getpid(), transformers.AutoTokenizer.from_pretrained

    def in_a_copy(*args: Any, **options: Any) -> Any:
        assert os.getpid() != here, "built"
        return real(*args, **options)

    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", in_a_copy)
    with pytest.raises(HeedfulError, match=r"the tokenizer of .* is not used: building it took over"):
        heedful.load(str(folder))


@pytest.mark.skipif(sys.platform != "linux", reason="reads what the process is doing from /proc")
def test_ctrl_c_does_not_wait_for_a_pattern(folder: Path) -> None:
    hostile.pieces(lambda facts: facts.update(pre_tokenizer=SLOW))(folder)
    code = f"""
import sys
from heedful.cli.main import main
from heedful.modalities import limited_copy, tokenizer_calls
real = tokenizer_calls._in_time
def begun(call, size, what):
    if size > 1000:
        print("begun", flush=True)
    return real(call, size, what)
tokenizer_calls._in_time = begun
sys.exit(main(["explain", {DRIPS!r} * 100, "--model", {str(folder)!r}, "--long", "truncate", "-q"]))
"""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)  # the pattern would take many minutes
    assert process.returncode == 130, err
    assert "Traceback" not in err
