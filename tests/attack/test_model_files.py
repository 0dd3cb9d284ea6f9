"""Files of model folders that cannot be read to their end: refused before transformers opens any."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.attack import hostile_models as hostile
from tests.models.test_load_picture_folders import save

from heedful.cli.main import main
from heedful.core.errors import HeedfulError
from heedful.models import hf_load
from heedful.models.folder_files import MAX_MODEL_TEXT

# what transformers may open in a folder, whether a model was saved with it or not
FILES = (
    "model.safetensors",
    "model-00001-of-00002.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "generation_config.json",
    "adapter_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "chat_template.jinja",
    "chat_template.json",
    "additional_chat_templates/tools.jinja",
    "preprocessor_config.json",
    "processor_config.json",
)
TEXTS = [name for name in FILES if not name.endswith((".safetensors", ".bin"))]


@pytest.fixture(scope="session")
def text_model(tmp_path_factory: pytest.TempPathFactory, shared: Callable[[str], Any]) -> Path:
    return hostile.sound(tmp_path_factory.mktemp("models") / "llama", shared("llama"))


@pytest.fixture(scope="session")
def picture_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "vit"
    save("vit", folder)
    return folder


@pytest.fixture(params=["text_model", "picture_model"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that is made of links, as in the cache of the hub. No weights are opened: that could hang."""
    copy = tmp_path / "model"
    copy.mkdir()
    for path in request.getfixturevalue(request.param).iterdir():
        (copy / path.name).symlink_to(path)
    hf_load.check_folder(copy, allow_pickle=False)
    return copy


def emptied(folder: Path, name: str) -> Path:
    """Where the file was, or will be."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    return path


@pytest.mark.parametrize("name", FILES)
def test_pipes_and_devices_are_refused(name: str, folder: Path) -> None:
    path = emptied(folder, name)
    os.mkfifo(path)
    with pytest.raises(HeedfulError, match="is not a regular file: it is a pipe or a device"):
        hf_load.check_folder(folder, allow_pickle=True)
    emptied(folder, name).symlink_to("/dev/zero")
    with pytest.raises(HeedfulError, match="is not a regular file: it is a pipe or a device"):
        hf_load.check_folder(folder, allow_pickle=True)


@pytest.mark.parametrize("name", TEXTS)
def test_texts_have_a_limit(name: str, folder: Path) -> None:
    path = emptied(folder, name)
    with path.open("wb") as file:
        file.truncate(MAX_MODEL_TEXT + 1)  # it takes no room on the disk
    with pytest.raises(HeedfulError, match=r"is too large: the limit is 256 MB"):
        hf_load.check_folder(folder, allow_pickle=True)


@pytest.mark.parametrize("name", ["/dev/zero", "../other.safetensors", "sub/a.safetensors", "..", 5, None])
def test_an_index_names_files_of_its_folder(name: Any, folder: Path) -> None:
    index = emptied(folder, "model.safetensors.index.json")
    index.write_text(json.dumps({"metadata": {}, "weight_map": {"a": "model.safetensors", "b": name}}))
    with pytest.raises(HeedfulError, match="it names weights outside the folder"):
        hf_load.check_folder(folder, allow_pickle=False)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"weight_map": []}', "[" * 100_000])
def test_an_index_that_is_none_is_left_to_transformers(content: str, folder: Path) -> None:
    """Weights that were saved as one file need none."""
    emptied(folder, "pytorch_model.bin.index.json").write_text(content)
    (folder / "gone.json").symlink_to("nowhere")
    (folder / "runs").mkdir()
    hf_load.check_folder(folder, allow_pickle=False)


def test_the_command_says_it_in_one_line(
    text_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ((_, folder),) = hostile.folders(text_model, {"a pipe": hostile.pipe("tokenizer_config.json")}, tmp_path)
    assert main(["explain", "the cat", "--model", str(folder), "-q"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("heedful: ")
    assert "tokenizer_config.json is not a regular file" in err
    assert err.count("\n") == 1
