"""Model folders that a stranger may send: sound ones with one thing changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

Change = Callable[[Path], None]


def edit(file: str, **changes: Any) -> Change:
    """Set top-level values of a JSON file; None removes one."""

    def change(folder: Path) -> None:
        path = folder / file
        facts = json.loads(path.read_text()) | changes
        path.write_text(json.dumps({name: value for name, value in facts.items() if value is not None}))

    return change


def write(file: str, content: str | bytes) -> Change:
    def change(folder: Path) -> None:
        (folder / file).unlink(missing_ok=True)
        (folder / file).write_bytes(content.encode() if isinstance(content, str) else content)

    return change


def weights(alter: Callable[[torch.Tensor], torch.Tensor], which: str = "") -> Change:
    """Every tensor whose name has `which` in it, changed."""

    def change(folder: Path) -> None:
        path = folder / "model.safetensors"
        tensors = {name: alter(t) if which in name else t for name, t in load_file(path).items()}
        save_file({name: t.contiguous() for name, t in tensors.items()}, path, {"format": "pt"})

    return change


def template(text: str) -> Change:
    def change(folder: Path) -> None:
        (folder / "chat_template.jinja").unlink(missing_ok=True)
        edit("tokenizer_config.json", chat_template=text)(folder)

    return change


def pieces(alter: Callable[[dict[str, Any]], None]) -> Change:
    """tokenizer.json, changed."""

    def change(folder: Path) -> None:
        facts = json.loads((folder / "tokenizer.json").read_text())
        alter(facts)
        (folder / "tokenizer.json").write_text(json.dumps(facts))

    return change


def no_unknown(facts: dict[str, Any]) -> None:
    """No token for words that it does not know."""
    facts["model"]["vocab"].pop("[UNK]")
    facts["added_tokens"] = [one for one in facts["added_tokens"] if one["content"] != "[UNK]"]


def ids_beyond(facts: dict[str, Any]) -> None:
    vocabulary = facts["model"]["vocab"]
    for word in list(vocabulary)[10:]:
        vocabulary[word] += 100_000


def pipe(file: str) -> Change:
    def change(folder: Path) -> None:
        (folder / file).unlink()
        os.mkfifo(folder / file)

    return change


def link(file: str, target: str) -> Change:
    def change(folder: Path) -> None:
        (folder / file).unlink()
        (folder / file).symlink_to(target)

    return change


DEEP = "[" * 100_000 + "]" * 100_000
RAISING = {
    "raises": "{{ raise_exception('not this chat') }}",
    "divides by zero": "{{ 1 // 0 }}",
    "breaks off": "{% for message in messages %}",
    "has no such thing": "{{ messages[0].content.nosuch() }}",
    "asks for what is forbidden": "{{ messages.__class__.__mro__[1].__subclasses__() }}",
    "is no text": "{{ messages[99]['content'] }}",
    "never ends": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "is very long": "{{ 'abcdefgh' * 999999999 }}",
    "grows": "{% set x = namespace(s='ab') %}{% for i in range(60) %}{% set x.s = x.s ~ x.s %}{% endfor %}",
    "is deep": "{% if 1 %}" * 2000 + "x" + "{% endif %}" * 2000,
}
CHATS: dict[str, Change] = {f"a template that {name}": template(text) for name, text in RAISING.items()}
CONFIGS: dict[str, Change] = {
    "a config that is deep": write("config.json", '{"model_type": "bert", "x": ' + DEEP + "}"),
    "a config that is a list": write("config.json", "[]"),
    "a config that is a pipe": pipe("config.json"),
    "a config without end": link("config.json", "/dev/zero"),
    "a config with a number of 5,000 digits": write("config.json", '{"vocab_size": ' + "9" * 5000 + "}"),
    "a hundred thousand layers": edit("config.json", num_hidden_layers=100_000),
    "a negative number of layers": edit("config.json", num_hidden_layers=-1),
    "no layers": edit("config.json", num_hidden_layers=0),
    "a width of a billion": edit("config.json", hidden_size=10**9, intermediate_size=10**9),
    "a billion tokens": edit("config.json", vocab_size=10**9),
    "a billion labels": edit("config.json", id2label={str(n): "x" for n in range(3)}, num_labels=10**9),
    "layers in words": edit("config.json", num_hidden_layers="two"),
    "heads that do not divide": edit("config.json", num_attention_heads=7),
    "labels without numbers": edit("config.json", id2label={"a": "b"}),
    "labels that are a list": edit("config.json", id2label=["a", "b"]),
    "a kernel from the hub": edit("config.json", _attn_implementation="kernels-community/evil"),
    "a kernel from the hub, by its other name": edit("config.json", attn_implementation="evil/kernel:run"),
    "code of its own": edit("config.json", auto_map={"AutoConfig": "evil.Config"}, model_type="evil"),
    "an unknown activation": edit("config.json", hidden_act="nosuch"),
    "a token type beyond": edit("config.json", type_vocab_size=0),
    "gradients by training hooks": edit("config.json", gradient_checkpointing=True),
    "a quantised config": edit("config.json", quantization_config={"quant_method": "bitsandbytes"}),
}
WEIGHTS: dict[str, Change] = {
    "NaN in all weights": weights(lambda t: torch.full_like(t, torch.nan)),
    "NaN in the head": weights(lambda t: torch.full_like(t, torch.nan), "classifier"),
    "NaN in one layer": weights(lambda t: torch.full_like(t, torch.nan), "layer.1"),
    "weights that overflow": weights(lambda t: torch.full_like(t, 3e38)),
    "infinite weights": weights(lambda t: torch.full_like(t, torch.inf)),
    "weights of zero": weights(torch.zeros_like),
    "weights that are cut": lambda folder: cut(folder / "model.safetensors"),
    "weights that are empty": write("model.safetensors", b""),
    "weights whose head is long": write("model.safetensors", (2**60).to_bytes(8, "little") + b"{}"),
}
TOKENIZERS: dict[str, Change] = {
    "a window in words": edit("tokenizer_config.json", model_max_length="five"),
    "a window below zero": edit("tokenizer_config.json", model_max_length=-5),
    "a window of one": edit("tokenizer_config.json", model_max_length=1),
    "a window that is a list": edit("tokenizer_config.json", model_max_length=[5]),
    "no unknown token": pieces(no_unknown),
    "ids beyond the table": pieces(ids_beyond),
    "a smaller table than the tokenizer has words": edit("config.json", vocab_size=20),
    "a mask that is no word of it": edit("tokenizer_config.json", mask_token="<other>"),
    "a tokenizer that is deep": write("tokenizer.json", DEEP),
    "a tokenizer that is empty": write("tokenizer.json", ""),
    "a tokenizer of another class": edit("tokenizer_config.json", tokenizer_class="Nosuch"),
    "a special token that is a number": edit("tokenizer_config.json", cls_token=5),
}
EVERY = CONFIGS | WEIGHTS | TOKENIZERS
HARMLESS = {  # what is wrong with them does not matter for an explanation, or is left out when they are read
    "no layers",
    "a kernel from the hub",
    "a kernel from the hub, by its other name",
    "gradients by training hooks",
    "a quantised config",
    "weights of zero",
    "a window below zero",
    "a mask that is no word of it",
    "a tokenizer of another class",
}


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def sound(folder: Path, family: Any) -> Path:
    """A model and its tokenizer as they are saved."""
    family.hf.save_pretrained(folder)
    family.tokenizer.save_pretrained(folder)
    return folder


def folders(base: Path, changes: dict[str, Change], into: Path) -> Iterator[tuple[str, Path]]:
    """(what is wrong, a copy of the sound folder with it)."""
    import shutil

    for number, (name, change) in enumerate(changes.items()):
        place = into / str(number)
        shutil.copytree(base, place)
        change(place)
        yield name, place
