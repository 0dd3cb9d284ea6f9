"""One way to write a whole file: on disk before it has its name, and several processes may do it at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.config import Config
from heedful.io.files import write_file


def test_two_processes_may_write_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second process writes it from the first byte to the last while the first one waits for the disk."""
    path, fsync, own = tmp_path / "answer.json", os.fsync, os.getpid()

    def meanwhile(handle: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(os, "getpid", lambda: own + 1)
        write_file(path, b"second", shared=True)
        monkeypatch.setattr(os, "getpid", lambda: own)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", meanwhile)
    write_file(path, b"the first", shared=True)
    assert path.read_bytes() == b"the first"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_saved_for_saelens_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files, and after each the folder that has its name."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    eye, zeros = torch.eye(3), torch.zeros(3)
    SAE(Config("topk", 3, 3, 1), eye, zeros, eye.clone(), zeros.clone()).save_saelens(tmp_path)
    assert len(synced) == 4
    assert {path.name for path in tmp_path.iterdir()} == {"cfg.json", "sae_weights.safetensors"}


def test_what_is_no_regular_file_is_written_as_it_is(tmp_path: Path) -> None:
    """A link stays a link, a pipe stays a pipe; folders are made."""
    real, link = tmp_path / "deep" / "real", tmp_path / "link"
    write_file(real, "old")
    link.symlink_to(real)
    write_file(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    handle = os.open(pipe, os.O_RDWR)
    try:
        write_file(pipe, b"through")
        assert os.read(handle, 100) == b"through"
    finally:
        os.close(handle)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    write_file(path, "old")

    def fails(_: int) -> None:
        raise OSError("full")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="full"):
        write_file(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
