"""A store gives every row once an epoch, in an order that its seed settles, from wherever one goes on."""

from __future__ import annotations

import hashlib
import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from heedful import ActivationStore, HeedfulError
from heedful.core.result_kinds import find_kind
from heedful.features.activations import shuffle
from heedful.features.activations.shuffle import ScatterWriter, Shape, remove_parts
from heedful.features.activations.store_facts import KIND, StoreFacts
from heedful.io.run_folder import start_of_manifest
from heedful.io.sharded_run import ShardedRun, shard_entry


def made(rows: int, shape: Shape, path: Path, chunk: int = 37) -> ActivationStore:
    """A store of rows that say their own number."""
    scatter = ScatterWriter(path, shape)
    numbers = numbered(rows, shape)
    for at in range(0, rows, chunk):
        scatter.add(numbers[at : at + chunk])
    facts = StoreFacts("m", "s", shape.d, shape.dtype, rows)
    run = ShardedRun(path, KIND, "harvest")
    done = scatter.finish().shards
    shards = [
        shard_entry(path, f"shards/{one['file']}", rows=one["rows"], sha256=one["sha256"]) for one in done
    ]
    (path / "manifest.json").write_text(json.dumps(begun()))
    run.finish(facts, shards)
    remove_parts(path)
    return ActivationStore.load(path)


def begun() -> dict[str, Any]:
    """The manifest of a harvest that is not finished."""
    return start_of_manifest(find_kind(KIND), "") | {"made": {}}


def numbered(rows: int, shape: Shape) -> Any:
    table = np.arange(rows)[:, None] * 10 + np.arange(shape.d)
    return table.astype(shape.dtype)


def order_of(acts: ActivationStore) -> list[int]:
    whole = acts.slice(0, acts.rows)
    assert torch.equal(whole - whole[:, :1], torch.arange(acts.d).expand_as(whole).float()), "rows are whole"
    return [int(value) // 10 for value in whole[:, 0]]


@pytest.fixture(autouse=True)
def _few_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffle, "SHARDS", 4)


@pytest.mark.parametrize(
    ("rows", "known"), [(1, None), (39, None), (40, 40), (40, None), (95, None), (95, 95)]
)
def test_every_row_is_stored_once_and_shards_are_full(tmp_path: Path, rows: int, known: int | None) -> None:
    """Generations of 4 shards of 10: one that is short, one that is full, several."""
    shape = Shape(3, "float32", 10, seed=1, rows=known)
    acts = made(rows, shape, tmp_path / "a")
    order = order_of(acts)
    assert sorted(order) == list(range(rows))
    generations = [order[at : at + 40] for at in range(0, rows, 40)]
    assert all(
        set(found) == set(range(40 * g, min(rows, 40 * g + 40))) for g, found in enumerate(generations)
    )
    assert [shard.rows for shard in acts.facts.shards] == [
        min(10, left) for size in map(len, generations) for left in range(size, 0, -10)
    ]
    assert not (tmp_path / "a" / ".part").exists()


def test_the_order_is_that_of_the_permutation_and_looks_uniform(tmp_path: Path) -> None:
    """A row of a generation lies where its slot says; over seeds every row is everywhere alike."""
    shape = Shape(2, "float32", 10, seed=5)
    assert order_of(made(40, shape, tmp_path / "full")) == np.argsort(shape.slots(0)).tolist()
    short = order_of(made(25, shape, tmp_path / "short"))
    assert short == np.argsort(shape.slots(0)[:25]).tolist()
    places = np.array([np.argsort(Shape(2, "float32", 10, seed).slots(0)[:25]) for seed in range(800)])
    counts = np.array([np.bincount(places[:, at], minlength=25) for at in (0, 12, 24)])
    chi = ((counts - 32) ** 2 / 32).sum(1)
    assert (chi < 60).all(), "24 degrees of freedom: 60 is beyond one in 10,000"


def test_shards_are_safetensors_with_the_sums_the_manifest_names(tmp_path: Path) -> None:
    acts = made(33, Shape(3, "float16", 10, seed=0), tmp_path / "a")
    parts = []
    for shard in acts.facts.shards:
        path = tmp_path / "a" / shard.name
        assert hashlib.sha256(path.read_bytes()).hexdigest() == shard.sha256
        parts.append(load_file(path)["activations"])
    assert parts[0].dtype == torch.float16
    assert torch.equal(torch.cat(parts).float(), acts.slice(0, 33))
    acts.check()
    path.write_bytes(path.read_bytes()[:-1] + b"\x7f")
    with pytest.raises(HeedfulError, match="damaged"):
        acts.check()


@pytest.mark.parametrize("size", [1, 7, 16, 64, 95])
def test_an_epoch_gives_no_row_twice(tmp_path: Path, size: int) -> None:
    acts = made(95, Shape(3, "float32", 10, seed=0), tmp_path / "a")
    batches = list(acts.batches(size, seed=3, epochs=2))
    each = 95 // size
    assert len(batches) == 2 * each
    for epoch in (batches[:each], batches[each:]):
        rows = torch.cat(epoch)[:, 0].tolist()
        assert len(set(rows)) == each * size
        assert all(batch.shape == (size, 3) and batch.dtype == torch.float32 for batch in epoch)
    assert not torch.equal(torch.cat(batches[:each]), torch.cat(batches[each:])), "another order"


@pytest.mark.parametrize("size", [5, 30])
def test_batches_go_on_from_any_number(tmp_path: Path, size: int) -> None:
    """Endless, and the same whether one starts there or comes there."""
    acts = made(95, Shape(3, "float32", 10, seed=0), tmp_path / "a")
    whole = list(islice(acts.batches(size, seed=2), 60))
    for start in (1, 95 // size - 1, 95 // size, 47):
        for there, here in zip(whole[start:], acts.batches(size, seed=2, start=start), strict=False):
            assert torch.equal(there, here)
    other = list(islice(acts.batches(size, seed=4), 60))
    assert not all(map(torch.equal, whole, other))


def test_batches_mix_the_whole_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of 64 has rows of most shards, though it reads runs of neighbours."""
    monkeypatch.setattr(shuffle, "SHARDS", 2)
    acts = made(1000, Shape(3, "float32", 50, seed=0), tmp_path / "a")
    home = {number: at // 50 for at, number in enumerate(order_of(acts))}
    for batch in acts.batches(64, epochs=1):
        assert len({home[int(row[0]) // 10] for row in batch}) >= 5
    starts, ends = acts._order(64, 0, 0)
    assert len(starts) < 1000 / 7, "runs, not single rows"
    assert ends[-1] == 1000


def test_a_store_smaller_than_a_batch_is_repeated(tmp_path: Path) -> None:
    acts = made(5, Shape(3, "float32", 10, seed=0), tmp_path / "a")
    batch = next(acts.batches(12))
    assert batch.shape == (12, 3)
    assert np.bincount((batch[:, 0] / 10).int()).tolist() in ([3, 3, 2, 2, 2], [2, 3, 2, 3, 2]) or (
        sorted(np.bincount((batch[:, 0] / 10).int()).tolist()) == [2, 2, 2, 3, 3]
    )


def test_what_was_not_kept_is_forgotten(tmp_path: Path) -> None:
    """Rows added after `keep`, a bucket that grew and one that was never known: all are cut back."""
    shape = Shape(3, "float32", 10, seed=0)
    rows = numbered(95, shape)
    scatter = ScatterWriter(tmp_path / "a", shape)
    scatter.add(rows[:47])
    scatter.keep()
    scatter.add(rows[47:60] + 1000)
    scatter.stop()
    assert scatter.state.rows == 60
    again = ScatterWriter(tmp_path / "a", shape)
    assert (again.state.rows, again.state.generation, again.state.filled) == (47, 1, 7)
    again.add(rows[47:])
    again.finish()
    made(95, shape, tmp_path / "b")
    for path in (tmp_path / "b" / "shards").iterdir():
        assert path.read_bytes() == (tmp_path / "a" / "shards" / path.name).read_bytes()


def test_a_bucket_that_lost_bytes_is_refused(tmp_path: Path) -> None:
    scatter = ScatterWriter(tmp_path / "a", Shape(3, "float32", 10, seed=0))
    scatter.add(numbered(30, scatter.shape))
    scatter.keep()
    scatter.stop()
    bucket = next(path for path in (tmp_path / "a" / ".part").iterdir() if path.name.startswith("000000"))
    bucket.write_bytes(bucket.read_bytes()[:-4])
    with pytest.raises(HeedfulError, match="shorter"):
        ScatterWriter(tmp_path / "a", scatter.shape)


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeedfulError, match="is not a run folder"):
        ActivationStore.load(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps(begun() | {"kind": "audit", "files": {}}))
    with pytest.raises(HeedfulError, match="holds a run of kind audit"):
        ActivationStore.load(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps(begun()))
    with pytest.raises(HeedfulError, match="not finished"):
        ActivationStore.load(tmp_path)
    acts = made(5, Shape(3, "float32", 10, seed=0), tmp_path / "a")
    with pytest.raises(HeedfulError, match="no such batch"):
        next(acts.batches(0))
    (tmp_path / "a" / "shards" / "000000.safetensors").write_bytes(b"short")
    with pytest.raises(HeedfulError, match="damaged"):
        ActivationStore.load(tmp_path / "a")
