"""Model folders of strangers: a result, or one line that says why not, in seconds and without their code."""

from __future__ import annotations

import io
import json
import logging
import random
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tests.attack import hostile_models as hostile
from tests.server.serving import finished, listening

import heedful
from heedful.cli.main import main
from heedful.core.errors import HeedfulError
from heedful.modalities import chat_template, limited_copy
from heedful.modalities.encode import _turns_of
from heedful.models import config_limits
from heedful.server import app

CHAT = [{"role": "user", "content": "the cat sat"}]
SECONDS = 60  # for one of them, on a busy machine; without limits some take hours


@contextmanager
def in_time(name: str) -> Iterator[None]:
    def over(*_: Any) -> None:
        pytest.fail(f"{name} takes longer than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(name: str, folder: Path, text: Any) -> str:
    """What became of it, in a line."""
    with in_time(name):
        try:
            methods = ["grad-l2", "integrated-gradients", "occlusion"]
            heedful.explain(heedful.load(str(folder)), text, methods, evidence=False)
        except HeedfulError as error:
            return str(error)
    return "explained"


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory, shared: Callable[[str], Any]) -> Path:
    return hostile.sound(tmp_path_factory.mktemp("models") / "bert", shared("bert"))


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory, shared: Callable[[str], Any]) -> Path:
    return hostile.sound(tmp_path_factory.mktemp("models") / "llama", shared("llama"))


@pytest.mark.parametrize("kind", ["CONFIGS", "WEIGHTS", "TOKENIZERS"])
def test_strange_models_are_explained_or_told(kind: str, bert: Path, tmp_path: Path) -> None:
    told = {
        name: outcome(name, folder, "the cat sat")
        for name, folder in hostile.folders(bert, getattr(hostile, kind), tmp_path)
    }
    assert not any("\n" in line for line in told.values())
    assert {name for name, line in told.items() if line == "explained"} <= hostile.HARMLESS
    assert all("NaN" in line for name, line in told.items() if "NaN" in name or "overflow" in name)


@pytest.mark.parametrize("name", ["t5", "gpt2", "bert"])
def test_nan_is_told_before_anything_is_written(
    name: str, tmp_path: Path, shared: Callable[[str], Any]
) -> None:
    folder = hostile.sound(tmp_path / name, shared(name))
    hostile.WEIGHTS["NaN in all weights"](folder)
    assert "the first layer whose output contains a NaN is" in outcome(name, folder, "the cat sat")


def test_settings_of_a_wrong_kind_are_one_line(tmp_path: Path, shared: Callable[[str], Any]) -> None:
    """They are used only when the model writes."""
    folder = hostile.sound(tmp_path / "t5", shared("t5"))
    hostile.edit("config.json", max_position_embeddings="gelu")(folder)
    assert "cannot run on this text: TypeError" in outcome("t5", folder, "the cat sat")


def test_weights_that_do_not_fit_are_told_without_the_words_of_the_library(
    bert: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(bert, tmp_path / "model"))
    hostile.edit("config.json", intermediate_size=48)(folder)
    assert "its weights have other sizes than its config says" in outcome("sizes", folder, "the cat sat")


def test_a_model_that_is_prepared_for_training_is_explained(fresh: Callable[[str], Any]) -> None:
    """Its embeddings ask for gradients by a hook."""
    family = fresh("bert")
    family.hf.gradient_checkpointing_enable()
    family.hf.enable_input_require_grads()
    model = heedful.load((family.hf, family.tokenizer))
    made = heedful.explain(model, "the cat sat", ["integrated-gradients"], evidence=False)
    expected = heedful.explain(
        heedful.load((fresh("bert").hf, family.tokenizer)),
        "the cat sat",
        ["integrated-gradients"],
        evidence=False,
    )
    np.testing.assert_allclose(made.attributions[0].scores, expected.attributions[0].scores, atol=1e-6)


def test_nothing_of_a_config_reaches_the_loader_of_kernels(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would download a program from the hub and run it."""
    import transformers.modeling_utils as library

    asked: list[Any] = []
    monkeypatch.setattr(library, "is_kernel", lambda name: asked.append(name) or False)
    kernels = {name: change for name, change in hostile.CONFIGS.items() if "kernel" in name}
    assert len(kernels) == 2
    for name, folder in hostile.folders(bert, kernels, tmp_path):
        assert outcome(name, folder, "the cat sat") == "explained"
    assert asked  # the check is where this test looks
    assert not any("/" in str(name) for name in asked)


def test_more_layers_than_tensors_are_refused_before_they_are_built(bert: Path, tmp_path: Path) -> None:
    config = json.loads((bert / "config.json").read_text())
    weights = [bert / "model.safetensors"]
    config_limits.check_counts(bert / "config.json", config, weights)
    for changes in ({"num_hidden_layers": 257}, {"num_labels": 10**7}, {"text_config": {"n_layers": 10**6}}):
        with pytest.raises(HeedfulError, match="is refused"):
            config_limits.check_counts(bert / "config.json", config | changes, weights)


@pytest.mark.parametrize(
    "changes",
    [
        {"depths": [2, 100_000]},
        {"depths": [200] * 200},
        {"text_config": {"parts": [{"num_layers": 10**6}]}},
        {"num_experts": 10**6},
        {"vision_config": {"num_local_experts": 10**9}},
    ],
    ids=str,
)
def test_counts_in_lists_and_inside_other_configs_are_seen(changes: dict[str, Any], bert: Path) -> None:
    with pytest.raises(HeedfulError, match="is refused"):
        config_limits.check_counts("a model", changes, [bert / "model.safetensors"])


def test_numbers_that_count_no_layers_are_left_alone(bert: Path) -> None:
    """As they are in configs of the library."""
    facts = {
        "vision_feature_layer": -2,
        "cat_hidden_layers": [-1, 3],
        "depthwise_separable_out_channel": 1024,
        "num_experts": 16384,
        "depths": [3, 4, 6, 3],
        "vocab_size": 10**6,
    }
    config_limits.check_counts("a model", facts, [bert / "model.safetensors"])


BOMBS: dict[str, tuple[str, dict[str, Any]]] = {
    "groups of layers": ("albert", {"inner_group_num": 10**6}),
    "layers of a block": ("perceiver", {"num_self_attends_per_block": 10**6}),
    "sizes of blocks": ("funnel", {"block_sizes": [10**5], "architectures": ["FunnelModel"]}),
    "a list of layers": ("reformer", {"attn_layers": ["local"] * 10**5}),
    "a depth that is a factor": ("efficientnet", {"depth_coefficient": 1e5}),
    "a list that is written out": ("gpt_neo", {"attention_types": [[["global"], 10**10]]}),
}


@pytest.mark.parametrize("name", BOMBS)
def test_layers_are_counted_whatever_a_config_calls_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, changes = BOMBS[name]
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind} | changes))
    save_file({f"weight {n}": torch.zeros(1) for n in range(100)}, tmp_path / "model.safetensors")
    monkeypatch.setattr(limited_copy, "MAX_SECONDS", 3)
    monkeypatch.setattr("transformers.AutoModel.from_pretrained", lambda *_, **__: pytest.fail("built"))
    with in_time(name), pytest.raises(HeedfulError, match=r"the config of .* is refused") as refused:
        heedful.load(str(tmp_path))
    assert len(str(refused.value)) < 400


def layers(count: int) -> torch.nn.Sequential:
    """Each has two parameters, and is a part itself."""
    return torch.nn.Sequential(*[torch.nn.Linear(1, 1) for _ in range(count)])


def test_parts_are_counted_for_the_thread_that_builds() -> None:
    with config_limits.limited_parts("a model", 9):
        others = threading.Thread(target=layers, args=(50,))
        others.start()
        others.join()
        layers(3)
    with pytest.raises(HeedfulError, match="more than 8 parts"), config_limits.limited_parts("a model", 8):
        layers(3)
    layers(50)


def cached(hub: Path, bert: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model as the hub's cache holds it, under the id someone/model."""
    from huggingface_hub import constants

    place = hub / "models--someone--model"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("a" * 40)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(hub))
    return Path(shutil.copytree(bert, place / "snapshots" / ("a" * 40)))


@pytest.mark.parametrize("change", ["a hundred thousand layers", "a billion labels"])
def test_counts_of_a_model_in_the_hubs_cache_are_checked_too(
    change: str, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cached(tmp_path, bert, monkeypatch)
    heedful.load("someone/model", local_only=True)
    hostile.CONFIGS[change](folder)
    with in_time(change), pytest.raises(HeedfulError, match="the config of someone/model is refused"):
        heedful.load("someone/model", local_only=True)


def test_counts_of_a_config_that_another_one_names_are_checked_too(bert: Path, tmp_path: Path) -> None:
    """The library reads config.4.0.0.json instead, if config.json says so."""
    folder = Path(shutil.copytree(bert, tmp_path / "model"))
    sound = json.loads((folder / "config.json").read_text())
    (folder / "config.4.0.0.json").write_text(json.dumps(sound | {"num_hidden_layers": 100_000}))
    (folder / "config.json").write_text(json.dumps(sound | {"configuration_files": ["config.4.0.0.json"]}))
    assert "num_hidden_layers is 100,000" in outcome("another config", folder, "the cat sat")


@pytest.mark.parametrize(
    "changes",
    [{"vocab_size": 6 * 10**6}, {"max_position_embeddings": 10**8}, {"intermediate_size": 10**8}],
    ids=str,
)
def test_a_model_far_larger_than_its_weights_is_refused_before_it_is_built(
    changes: dict[str, Any], bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that are missing would be allocated first."""
    folder = Path(shutil.copytree(bert, tmp_path / "model"))
    hostile.edit("config.json", **changes)(folder)
    library = "transformers.AutoModelForSequenceClassification.from_pretrained"
    monkeypatch.setattr(library, lambda *_, **__: pytest.fail("built"))
    with pytest.raises(HeedfulError, match=r"is refused: it asks for .* MB"):
        heedful.load(str(folder))


def test_positions_without_a_table_may_be_many(llama: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(llama, tmp_path / "model"))
    hostile.edit("config.json", max_position_embeddings=10**8)(folder)
    assert outcome("rotary positions", folder, "the cat sat") == "explained"


@pytest.mark.parametrize("name", ["digits-vit", "lm", "sentiment", "tiny-clip"])
def test_the_models_that_come_with_heedful_are_about_as_large_as_their_weights(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the spare bytes, of which they need none."""
    monkeypatch.setattr(config_limits, "SIZE_SPARE", 0)
    heedful.load(f"zoo:{name}")
    monkeypatch.setattr(config_limits, "SIZE_FACTOR", 0.5)
    with pytest.raises(HeedfulError, match="is refused"):
        heedful.load(f"zoo:{name}")


def test_transformers_logs_nothing_beside_our_line(bert: Path, tmp_path: Path) -> None:
    """It logs the whole config before it raises. Its handler writes where stderr was when it was made."""
    folder = Path(shutil.copytree(bert, tmp_path / "model"))
    hostile.edit("config.json", use_return_dict=False)(folder)
    logger, heard = logging.getLogger("transformers"), io.StringIO()
    handler = logging.StreamHandler(heard)
    level = logger.level
    logger.addHandler(handler)
    try:
        with pytest.raises(HeedfulError, match="use_return_dict"):
            heedful.load(str(folder))
    finally:
        logger.removeHandler(handler)
    assert heard.getvalue() == ""
    assert logger.level == level


# --- chat templates ------------------------------------------------------------------------------------


def test_templates_that_fail_or_never_end_are_told(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_copy, "MAX_SECONDS", 3)
    for name, folder in hostile.folders(llama, hostile.CHATS, tmp_path):
        line = outcome(name, folder, CHAT)
        if name not in ("a template that is deep", "a template that grows"):  # some versions of Jinja can
            assert line.startswith("the chat template of this model failed: "), (name, line)


def test_a_template_that_raises_is_one_line_of_the_command(
    llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (_, folder), *_ = hostile.folders(llama, hostile.CHATS, tmp_path / "models")
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps(CHAT))
    assert main(["explain", "--chat", str(chat), "--model", str(folder), "-q"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("heedful: the chat template of this model failed: TemplateError: not this chat.")


TOLD = "the chat template of this model failed: "


@pytest.fixture
def talking(
    shared: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[httpx.Client, Any]]:
    """(a page, the tokenizer of its one model)"""
    family = shared("llama")
    monkeypatch.setattr(limited_copy, "MAX_SECONDS", 3)
    monkeypatch.setattr(family.tokenizer, "chat_template", family.tokenizer.chat_template)
    config = app.ServerConfig(runs=tmp_path / "runs")
    state = app.load_state([family.model], config)
    with listening(state, config) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client, family
    state.close()
    state.jobs.join()


@pytest.mark.parametrize("name", hostile.RAISING)
def test_a_template_that_fails_is_one_sentence_of_the_page(
    name: str, talking: tuple[httpx.Client, Any]
) -> None:
    client, family = talking
    family.tokenizer.chat_template = hostile.RAISING[name]
    sent = {"model": family.model.name, "turns": CHAT}
    answer = client.post("/api/look", json=sent | {"methods": ["grad-l2"]})
    if name not in ("is deep", "grows") or answer.status_code != 200:  # some versions of Jinja can
        line = answer.json()["error"]
        assert (answer.status_code, line.startswith(TOLD), "\n" in line) == (400, True, False), line
    assert client.get("/api/here").status_code == 200


def test_a_template_that_raises_is_told_by_every_part_of_the_page(talking: tuple[httpx.Client, Any]) -> None:
    client, family = talking
    family.tokenizer.chat_template = hostile.RAISING["raises"]
    sent = {"model": family.model.name, "turns": CHAT}
    for place, more in (("/api/try", {"edits": [{"word": 0}]}), ("/api/why", {"tokens": [5], "at": 0})):
        answer = client.post(place, json=sent | more)
        assert (answer.status_code, answer.json()["error"].startswith(TOLD)) == (400, True), answer.text
    for name in ("explain", "attention", "generate"):
        answer = client.post(f"/api/jobs/{name}", json=sent)
        if answer.status_code == 202:
            ended = finished(client, answer.json())
            assert (ended["state"], ended["error"].startswith(TOLD)) == ("failed", True), (name, ended)
        else:
            assert (answer.status_code, answer.json()["error"].startswith(TOLD)) == (400, True), answer.text


@pytest.mark.parametrize("template", ["{{ '\ud83d' }}{{ messages[0].content }}", "{{ messages[0].content }}"])
def test_half_a_character_in_a_chat_is_told(template: str, shared: Callable[[str], Any]) -> None:
    family = shared("llama")
    before = family.tokenizer.chat_template
    family.tokenizer.chat_template = template
    try:
        with pytest.raises(HeedfulError, match="lone surrogate"):
            family.model.encode([{"role": "user", "content": "a \ud83d"}])
    finally:
        family.tokenizer.chat_template = before


@pytest.mark.parametrize("kind", ["text", "pair", "chat", "template"])
def test_long_inputs_are_refused_before_their_words_are_aligned(
    kind: str, shared: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alignment takes minutes and gigabytes for what no model reads."""
    family, words = shared("llama"), "a cat " * 100_000
    monkeypatch.setattr("heedful.modalities.text_spans.align_words", lambda *_: pytest.fail("aligned"))
    before = family.tokenizer.chat_template
    if kind == "template":
        family.tokenizer.chat_template = "{{ 'a cat ' * 100000 }}{{ messages[0].content }}"
    raw = {"text": words, "pair": (words, "b"), "chat": [{"role": "user", "content": words}]}
    try:
        with pytest.raises(HeedfulError, match="the text has more than ") as caught:
            family.model.encode(raw.get(kind, CHAT))
    finally:
        family.tokenizer.chat_template = before
    assert "too many" in str(caught.value)


def test_tokens_belong_to_the_first_turn_they_share_a_character_with() -> None:
    """Against a look at every turn."""

    def slow(span: tuple[int, int], turns: list[Any]) -> int:
        every = (i for i, t in enumerate(turns) if t is not None and span[0] < t[1] and span[1] > t[0])
        return next(every, -1)

    draw = random.Random(3)
    for _ in range(300):
        cuts = sorted(draw.sample(range(60), 2 * draw.randrange(1, 6)))
        turns = [draw.choice([pair, pair, None]) for pair in zip(cuts[::2], cuts[1::2], strict=True)]
        starts = [draw.randrange(60) for _ in range(20)]
        spans = [(start, start + draw.randrange(0, 9)) for start in starts]
        assert _turns_of(spans, turns) == [slow(span, turns) for span in spans]


def test_a_copy_of_the_process_writes_the_same_text(llama: Path, shared: Callable[[str], Any]) -> None:
    tokenizer = shared("llama").tokenizer
    before = tokenizer.chat_template
    tokenizer.chat_template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{{ '…\ud83d' }}"
    )
    try:
        expected = tokenizer.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True)
        assert chat_template.render(tokenizer, CHAT, True) == expected
    finally:
        tokenizer.chat_template = before


# --- weights that are not finite -----------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["greedy", "sample", "beam"])
def test_a_model_of_nan_writes_nothing(strategy: str, tmp_path: Path, fresh: Callable[[str], Any]) -> None:
    """Greedy search would go on with token 0, and sampling fail in the library."""
    family = fresh("gpt2")
    with torch.no_grad():
        family.hf.transformer.h[1].ln_1.weight.fill_(torch.nan)
    with pytest.raises(HeedfulError, match=r"answers NaN.*the first layer .* is transformer\.h\.1\.ln_1"):
        family.model.answer(family.x("the cat"), 3, strategy=strategy, seed=0)


def test_activations_that_are_not_finite_are_not_stored(tmp_path: Path, fresh: Callable[[str], Any]) -> None:
    family = fresh("gpt2")
    family.model.facts()
    heedful.harvest(family.model, ["the cat sat"], "blocks.1.resid", tmp_path / "sound")
    with torch.no_grad():
        family.hf.transformer.h[0].mlp.c_fc.weight.fill_(torch.nan)
    with pytest.raises(HeedfulError, match=r"NaN|not finite"):
        heedful.harvest(family.model, ["the cat sat"], "blocks.1.resid", tmp_path / "nan")
    assert not list((tmp_path / "nan").rglob("*.safetensors"))


# --- plugins and the zoo's cache -----------------------------------------------------------------------


def test_a_plugin_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    from heedful.core import declarations

    broken = EntryPoint("mine", "heedful_nosuch_plugin.file", declarations.PLUGINS)
    monkeypatch.setattr(declarations, "entry_points", lambda group: [broken])
    declarations.import_plugins.cache_clear()
    try:
        with pytest.raises(
            HeedfulError, match=r"the plugin 'mine' cannot be imported: heedful_nosuch_plugin"
        ):
            declarations.import_plugins()
    finally:
        monkeypatch.undo()
        declarations.import_plugins.cache_clear()
        declarations.import_plugins()


def test_a_change_with_the_old_time_of_writing_is_noticed(tmp_path: Path) -> None:
    import os

    from heedful.models.zoo import cache

    path = tmp_path / "model.safetensors"
    path.write_bytes(b"good")
    cache.write_manifest(tmp_path, {"name": "x"})
    cache.mark_verified(tmp_path)
    assert cache.verified(tmp_path)
    times = path.stat()
    path.write_bytes(b"evil")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert not cache.verified(tmp_path)
    assert cache.problems(tmp_path, {"name": "x"}, full=True) == [
        "model.safetensors has another SHA-256 than when it was made"
    ]


def test_a_manifest_of_the_cache_with_other_types_is_none(tmp_path: Path) -> None:
    from tests.attack.json_leaves import mutations

    from heedful.models.zoo import cache

    (tmp_path / "a").write_bytes(b"a")
    cache.write_manifest(tmp_path, {"name": "x"})
    sound = json.loads((tmp_path / cache.MANIFEST).read_text())
    for _, data in mutations(sound, None):
        (tmp_path / cache.MANIFEST).write_text(json.dumps(data))
        cache.problems(tmp_path, {"name": "x"}, full=True)  # in words, whatever it is
    for name in ("../a", "/etc/passwd"):
        sound["files"] = {name: {"size": 1, "sha256": "x"}}
        (tmp_path / cache.MANIFEST).write_text(json.dumps(sound))
        assert cache.read_manifest(tmp_path) is None
