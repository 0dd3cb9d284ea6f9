"""Folders of SAEs and of activations in which one thing is changed: they open, or one line says why not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.attack.json_leaves import mutations
from tests.attack.test_datasets import mutations as byte_mutations
from tests.features.test_store import made
from tests.io.reforged import agree

from heedful import SAE, ActivationStore, HeedfulError
from heedful.features.activations.shuffle import Shape
from heedful.features.sae import checkpoint, pilot, train
from heedful.features.sae.config import Config
from heedful.features.sae.settings import resolve_settings
from heedful.features.sae.train import train_sae
from heedful.io import run_folder


def sae() -> SAE:
    draw = torch.Generator().manual_seed(3)
    source = {"site": "blocks.0.resid", "name": "m", "settings": {"sparsity": 1.0}, "last": {"l0": 2.0}}
    return SAE(
        config=Config("topk", 4, 6, k=2, source=source),
        W_enc=torch.randn(4, 6, generator=draw),
        b_enc=torch.zeros(6),
        W_dec=torch.randn(6, 4, generator=draw),
        b_dec=torch.zeros(4),
        threshold=torch.tensor(0.1),
    )


def use_sae(folder: Path) -> None:
    opened = SAE.load(folder)
    repr(opened)
    opened.encode(torch.zeros(2, opened.config.d))
    opened.config.run_title()


def use_store(folder: Path) -> None:
    store = ActivationStore.load(folder)
    repr(store)
    store.slice(0, 3)
    next(store.batches(2))
    store.check()


def stores(folder: Path) -> Path:
    made(50, Shape(4, "float32", 16, 0, None), folder / "store")
    return folder / "store"


def saes(folder: Path) -> Path:
    return sae().save(folder / "sae")


def saelens(folder: Path) -> Path:
    return sae().save_saelens(folder / "saelens")


RAW = "raw:"
Make = Callable[[Path], Path]
FOLDERS: dict[str, tuple[Make, Callable[[Path], None]]] = {
    "sae": (saes, use_sae),
    "saelens": (saelens, use_sae),
    "store": (stores, use_store),
}


def attacked(kind: str, tmp_path: Path, count: int | None) -> tuple[int, list[str]]:
    """(how many were tried, what was told)."""
    make, use = FOLDERS[kind]
    folder, tried, told = make(tmp_path), 0, []
    sound = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    for path, content in sound.items():
        if path.suffix == ".json":
            changes = [
                (name, json.dumps(data).encode()) for name, data in mutations(json.loads(content), count)
            ]
        elif path.suffix == ".safetensors":
            changes = [(str(n), one) for n, one in enumerate(byte_mutations(content, count or 300, 5))]
        else:
            continue
        for name, changed in changes:
            path.write_bytes(changed)
            if path.name == "result.json":
                agree(folder)  # as a forger would
            told += outcome(f"{path.name} {name}", use, folder)
            for each in {path, folder / "manifest.json"} & sound.keys():
                each.write_bytes(sound[each])
        tried += len(changes)
    return tried, told


def outcome(name: str, use: Callable[[Path], None], folder: Path) -> list[str]:
    try:
        use(folder)
    except HeedfulError as error:
        return [str(error)]
    except Exception as error:  # a traceback for whoever was sent this folder
        return [f"{RAW} {name}: {type(error).__name__}: {error}"]
    return []


def raw(told: list[str]) -> list[str]:
    return [line for line in told if line.startswith(RAW)]


@pytest.mark.parametrize("kind", FOLDERS)
def test_changed_folders_open_or_are_told(kind: str, tmp_path: Path) -> None:
    tried, told = attacked(kind, tmp_path, 120)
    assert raw(told) == []
    assert len(told) > tried // 4
    assert not any("\n" in line or len(line) > 1000 for line in told)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FOLDERS)
def test_every_change_of_a_folder_opens_or_is_told(kind: str, tmp_path: Path) -> None:
    assert raw(attacked(kind, tmp_path, None)[1]) == []


def test_a_shard_stays_in_its_folder(tmp_path: Path) -> None:
    folder = stores(tmp_path)
    path = folder / "manifest.json"
    for name in (str(folder / "shards/0.safetensors"), "../store/shards/0.safetensors", "a:b"):
        manifest = json.loads(path.read_text())
        manifest["shards"][0]["name"] = name
        path.write_text(json.dumps(manifest))
        with pytest.raises(HeedfulError, match="not a file of the folder"):
            ActivationStore.load(folder)


# --- training ------------------------------------------------------------------------------------------

DATA = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))
SETTINGS: dict[str, Any] = {"width": 6, "kind": "topk", "k": 2, "batch": 32}


def test_one_training_at_a_time_in_a_folder(tmp_path: Path) -> None:
    def again(*_: Any) -> None:
        with pytest.raises(HeedfulError, match="another training is writing"):
            train_sae(DATA, out=tmp_path / "sae", steps=4, **SETTINGS)

    train_sae(DATA, out=tmp_path / "sae", steps=4, keep=2, look=again, **SETTINGS)
    train_sae(DATA, out=tmp_path / "sae", steps=4, **SETTINGS)  # when it is over, another may


def test_what_a_killed_training_left_half_written_goes(tmp_path: Path) -> None:
    folder = tmp_path / "sae"
    (folder / "checkpoint").mkdir(parents=True)
    left = [folder / "checkpoint" / ".state-2.safetensors.part", folder / ".sae.safetensors.part"]
    for path in left:
        path.write_bytes(b"half")
    train_sae(DATA, out=folder, steps=4, keep=2, **SETTINGS)
    assert not list(folder.rglob("*.part"))


def use_checkpoint(folder: Path, settings: Any) -> None:
    checkpoint.read(folder / "checkpoint", settings)


def test_damaged_checkpoints_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "sae"
    train_sae(DATA, out=folder, steps=4, keep=2, **SETTINGS)
    state = folder / "checkpoint" / "state.json"
    settings = resolve_settings("topk", 4, 6, 4, k=2, batch=32)
    facts, told = json.loads(state.read_text()), []
    for name, data in mutations(facts, 150):
        state.write_text(json.dumps(data))
        told += outcome(name, lambda place: use_checkpoint(place, settings), folder)
    assert raw(told) == []
    assert len(told) > 40


# --- files that are too large, or not there but elsewhere ----------------------------------------------


def enlarged(path: Path) -> None:
    """Over the limit, and without taking room on the disk."""
    with path.open("r+b") as file:
        file.truncate(run_folder.MOST_BYTES + 1)


def dictionary_learning(folder: Path) -> Path:
    source = Path(__file__).parents[1] / "features" / "rivals" / "dictionary-learning-AutoEncoder"
    return Path(shutil.copytree(source, folder / "dictionary"))


@pytest.mark.parametrize(("make", "name"), [(saelens, "cfg.json"), (dictionary_learning, "config.json")])
def test_configs_of_other_libraries_have_a_limit(make: Make, name: str, tmp_path: Path) -> None:
    folder = make(tmp_path)
    linked = shutil.copytree(folder, tmp_path / "linked")
    (linked / name).unlink()
    (linked / name).symlink_to(folder / name)  # as in the cache of the hub
    SAE.load(linked, allow_pickle=True)
    enlarged(folder / name)
    with pytest.raises(HeedfulError, match=f"{name} is too large"):
        SAE.load(folder, allow_pickle=True)


def test_a_checkpoint_is_inside_its_folder_and_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sae"
    train_sae(DATA, out=folder, steps=4, keep=2, **SETTINGS)
    settings = resolve_settings("topk", 4, 6, 4, k=2, batch=32)
    assert checkpoint.read(folder / "checkpoint", settings) is not None
    with monkeypatch.context() as small:
        small.setattr(run_folder, "MAX_CHECKPOINT_BYTES", 100)
        with pytest.raises(HeedfulError, match=r"state-4\.safetensors has over"):
            checkpoint.read(folder / "checkpoint", settings)
    tensors = folder / "checkpoint" / "state-4.safetensors"
    tensors.rename(tmp_path / "elsewhere")
    tensors.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HeedfulError, match="is a link"):
        checkpoint.read(folder / "checkpoint", settings)


def test_the_choice_of_a_pilot_has_a_limit(tmp_path: Path) -> None:
    pilot.write(tmp_path, pilot.SparsityChoice(8, 2, "k by a pilot"))
    assert pilot.read(tmp_path) == pilot.SparsityChoice(8, 2, "k by a pilot")
    enlarged(tmp_path / pilot.FILE)
    with pytest.raises(HeedfulError, match=r"pilot\.json has over"):
        pilot.read(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_told_where_they_are(
    value: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as a fault of the model that the SAE is used with, and not as a training that went well."""
    broken = sae()
    broken.W_dec[1, 2] = value
    broken.save(tmp_path / "sae")
    with pytest.raises(HeedfulError, match="W_dec of the SAE has numbers that are not finite"):
        SAE.load(tmp_path / "sae")
    data = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))
    data[100] = value
    monkeypatch.setattr(train, "mean_square_norm", lambda *_: 4.0)  # as a store states it
    with pytest.raises(HeedfulError, match=r"the loss of step \d+ is not a finite number: the activ"):
        train_sae(data, width=6, kind="topk", k=2, batch=32, steps=20)
