"""A harvest holds what each window's own pass gives, every token once, and a kill changes no byte of it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful import ActivationStore, HeedfulError
from heedful.core.progress import Step
from heedful.features.activations import shuffle, windows
from heedful.features.activations.windows import TextSource, batches, cut_for, open_texts
from heedful.models.backend import Inputs
from heedful.models.sites.access import reading

SCRIPT = Path(__file__).with_name("killed_harvest.py")
TEXTS = [
    "the cat sat on the mat.",
    "hello world!",
    "",
    "a dog ran to the low house, don't stop",
    "not bad",
] * 4


def sorted_rows(rows: torch.Tensor) -> torch.Tensor:
    return torch.tensor(sorted(rows.tolist()))


def alone(model: Any, site: str, ids: list[int]) -> torch.Tensor:
    """(T, d): a site in a plain pass over one window."""
    row = torch.tensor([ids])
    answer = None
    if model.kind == "encoder-decoder":
        answer = torch.tensor([[model.backend.special_id("decoder_start")]])
    with reading(model, [site]) as seen, torch.inference_mode():
        model.backend.forward(Inputs(row, torch.ones_like(row), answer=answer))
    return seen[site][0]


def files(folder: Path) -> dict[str, bytes]:
    found = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    found.pop(".lock", None)
    return found


@pytest.mark.parametrize(
    ("name", "site"),
    [
        ("bert", "blocks.1.resid"),
        ("t5", "blocks.0.neurons"),
        ("roberta", "embed"),
        ("bart-classifier", "blocks.1.mlp"),
    ],
)
def test_texts_apart_are_read_as_they_are(shared: Any, tmp_path: Path, name: str, site: str) -> None:
    """Oracle: each text by itself, as the tokenizer encodes it, special tokens left out."""
    family = shared(name)
    acts = heedful.harvest(family.model, TEXTS, site, tmp_path / "a", batch_tokens=64)
    expected = []
    for text in filter(None, TEXTS):
        found = family.tokenizer(text, return_special_tokens_mask=True)
        keep = ~torch.tensor(found["special_tokens_mask"]).bool()
        expected.append(alone(family.model, site, found["input_ids"])[keep])
    every = torch.cat(expected)
    assert acts.rows == len(every)
    torch.testing.assert_close(
        sorted_rows(acts.slice(0, acts.rows)), sorted_rows(every), rtol=1e-4, atol=2e-5
    )
    np.testing.assert_allclose(acts.mean, every.double().mean(0), atol=1e-5)
    assert acts.mean_square_norm == pytest.approx(float(every.double().square().sum(1).mean()), rel=1e-5)
    assert acts.facts.model["fingerprint"] == family.model.facts()["fingerprint"]


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_language_models_read_full_windows(shared: Any, tmp_path: Path, name: str) -> None:
    """Oracle: the corpus by hand, an end-of-text token between texts, a first token before each window."""
    family = shared(name)
    model, site = family.model, "blocks.0.resid"
    begin, end = model.backend.special_id("bos"), model.backend.special_id("eos")
    stream: list[tuple[int, bool]] = []
    for text in filter(None, TEXTS):
        stream += [(end, False)] if stream else []
        stream += [(i, True) for i in family.tokenizer(text, add_special_tokens=False)["input_ids"]]
    expected = []
    for at in range(0, len(stream), 15):
        ids, keep = zip(*stream[at : at + 15], strict=True)
        expected.append(alone(model, site, [begin, *ids])[1:][torch.tensor(keep)])
    every = torch.cat(expected)
    acts = heedful.harvest(model, TEXTS, site, tmp_path / "a", context=16, batch_tokens=64)
    assert acts.rows == len(every)
    torch.testing.assert_close(
        sorted_rows(acts.slice(0, acts.rows)), sorted_rows(every), rtol=1e-4, atol=2e-5
    )
    assert acts.facts.padding < 0.02
    with_special = heedful.harvest(model, TEXTS, site, tmp_path / "b", context=16, skip_special=False)
    assert with_special.rows == len(stream) + len(expected)


def test_rows_stop_exactly_and_are_the_first(shared: Any, tmp_path: Path) -> None:
    family = shared("gpt2")
    options = {"context": 16, "batch_tokens": 32}
    whole = heedful.harvest(family.model, TEXTS, "embed", tmp_path / "a", **options)
    some = heedful.harvest(family.model, TEXTS, "embed", tmp_path / "b", rows=41, **options)
    assert some.rows == len(some) == 41
    first = {tuple(row) for row in some.slice(0, 41).tolist()}
    assert first <= {tuple(row) for row in whole.slice(0, whole.rows).tolist()}
    more = heedful.harvest(family.model, TEXTS, "embed", tmp_path / "c", rows=10**6, **options)
    assert more.rows == whole.rows


def test_half_precision_is_rounded_not_more(
    shared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = shared("bert")
    full = heedful.harvest(family.model, TEXTS, "blocks.0.mlp", tmp_path / "a")
    half = heedful.harvest(family.model, TEXTS, "blocks.0.mlp", tmp_path / "b", dtype="float16")
    assert torch.equal(half.slice(0, half.rows), full.slice(0, full.rows).half().float())
    assert sum(p.stat().st_size for p in (tmp_path / "b" / "shards").iterdir()) < 0.55 * sum(
        p.stat().st_size for p in (tmp_path / "a" / "shards").iterdir()
    )
    huge = lambda model, inputs, names: {names[0]: torch.full((*inputs.ids.shape, 32), 1e5)}  # noqa: E731
    monkeypatch.setattr("heedful.features.activations.extract.read", huge)
    with pytest.raises(HeedfulError, match=r"65,504.*float32"):
        heedful.harvest(family.model, TEXTS, "blocks.0.mlp", tmp_path / "c", dtype="float16")


def test_every_kind_of_file_gives_the_same_store(shared: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    family, texts = shared("gpt2"), [text for text in TEXTS if text]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["review"], *([text] for text in texts)])
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"review": text}) + "\n" for text in texts))
    pq.write_table(pa.table({"review": texts}), tmp_path / "t.parquet")
    stores = {
        kind: heedful.harvest(
            family.model, given, "blocks.0.attn", tmp_path / kind, context=16, text_column="review"
        )
        for kind, given in [("list", texts), *((k, tmp_path / f"t.{k}") for k in ("csv", "jsonl", "parquet"))]
    }
    shards = {name: {k: v for k, v in files(tmp_path / name).items() if "shards" in k} for name in stores}
    assert all(shards[name] == shards["list"] for name in stores)
    assert stores["csv"].facts.texts["sha256"]


def test_a_text_file_is_one_text_packed_and_lines_apart(shared: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("the cat sat\non the mat.\n\nhello world!\n")
    for name, pack in (("gpt2", True), ("bert", False)):
        family = shared(name)
        cut = cut_for(family.model, 32, None, True)
        assert cut.pack == pack
        found = list(windows.windows(TextSource(open_texts(path, "text")), family.model, cut))
        texts = [family.tokenizer.decode(window.ids[window.keep]) for window in found]
        if pack:
            assert "".join(texts) == "the cat sat\non the mat.\nhello world!\n"  # an empty line is no text
        else:
            assert [len(window) for window in found] == [
                len(family.tokenizer(line)["input_ids"])
                for line in ("the cat sat", "on the mat.", "hello world!")
            ]


def test_long_texts_are_cut_into_pieces_that_lose_nothing(
    shared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "PIECE_CHARACTERS", 20)
    text = "the cat sat on the mat. " * 9 + "x" * 50
    assert "".join(windows._pieces(text)) == text
    assert all(len(piece) <= 20 for piece in windows._pieces(text))


def test_batches_are_full_and_keep_the_limit(shared: Any) -> None:
    """Lengths 1 to 30: padding stays small because windows of like length are together."""
    rng = np.random.default_rng(0)
    found = [windows.Window(np.arange(n), np.ones(n, bool)) for n in rng.integers(1, 31, 400)]
    made = list(batches(found, 120, pad=9))
    assert sum(int(batch.mask.sum()) for batch in made) == sum(map(len, found))
    assert all(batch.ids.numel() <= 120 for batch in made)
    assert sum(batch.ids.numel() for batch in made) < 1.1 * sum(map(len, found))
    assert all((batch.ids[batch.mask == 0] == 9).all() for batch in made)


@pytest.mark.slow  # random kills; test_fault_points.py stops at named places
def test_kills_change_no_byte(tmp_path: Path) -> None:
    """Also not against the run before, in the same process, that was never stopped."""
    quiet = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), "5"],
        capture_output=True,
        text=True,
        env=quiet,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    points, died = map(int, done.stdout.split())
    assert points > 50, "every call that settles something on disk was a place to die"
    assert not list(tmp_path.glob("killed-*")), "a harvest that was killed once is another"
    assert died >= 6, "most attempts must really have been killed"
    assert files(tmp_path / "killed") == files(tmp_path / "large")
    assert [len(ActivationStore.load(tmp_path / name).facts.shards) > 8 for name in ("small", "large")] == [
        True
    ] * 2


def stopping(after: int) -> Any:
    left = after

    def progress(*_: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt

    return progress


def test_it_goes_on_only_with_the_same_settings_and_texts(
    shared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heedful.features.activations.harvest.MAX_LOST_SECONDS", 0.0)
    family = shared("gpt2")
    given: dict[str, Any] = {"context": 16, "batch_tokens": 32}

    def start(
        texts: Any = TEXTS, site: str = "embed", model: Any = family.model, **more: Any
    ) -> ActivationStore:
        return heedful.harvest(model, texts, site, tmp_path / "a", **given | more)

    with pytest.raises(KeyboardInterrupt):
        start(progress=stopping(3))
    with pytest.raises(HeedfulError, match="not finished"):
        ActivationStore.load(tmp_path / "a")
    for wrong in ({"seed": 1}, {"context": 8}, {"dtype": "float16"}, {"rows": 9}, {"site": "blocks.0.resid"}):
        with pytest.raises(HeedfulError, match=r"was made differently: .* was "):
            start(**wrong)  # type: ignore[arg-type]
    other = [text.replace("cat", "dog") for text in TEXTS]
    for texts in (other, TEXTS[:1] + [""] * (len(TEXTS) - 1)):
        with pytest.raises(HeedfulError, match="texts are not those"):
            start(texts)
    told: list[Step] = []
    acts = start(progress=told.append)
    assert told[0].resumed > 0, "what was done before is not done again"
    assert told[-1].done == acts.rows
    assert told[-1].total == pytest.approx(acts.rows, rel=0.2)
    again = start()
    assert again.facts == acts.facts


def test_a_finished_store_of_a_file_needs_no_model(
    shared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.txt"
    path.write_text("the cat sat\n" * 30)
    first = heedful.harvest(shared("gpt2").model, path, "embed", tmp_path / "a", context=16)
    monkeypatch.setattr(
        "heedful.features.activations.harvest.take", lambda *_: pytest.fail("it was run again")
    )
    assert heedful.harvest(shared("gpt2").model, path, "embed", tmp_path / "a", context=16).rows == first.rows
    path.write_text("the cat sat\n" * 31)
    with pytest.raises(HeedfulError, match="texts sha256 was"):
        heedful.harvest(shared("gpt2").model, path, "embed", tmp_path / "a", context=16)


def test_memory_does_not_grow_with_the_texts(
    shared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is held at once: the pool of windows, one shard, the buffers. Counted in Python's own memory."""
    import tracemalloc

    monkeypatch.setattr(shuffle, "BUFFER_BYTES", 1024)
    monkeypatch.setattr(shuffle, "SHARDS", 2)
    monkeypatch.setattr(windows, "POOL_BATCHES", 2)
    family, peaks = shared("gpt2"), []
    for times in (2, 2, 12):  # the first fills caches
        tracemalloc.start()
        heedful.harvest(
            family.model,
            (text for _ in range(times) for text in TEXTS),
            "embed",
            tmp_path / f"{len(peaks)}",
            context=16,
            batch_tokens=64,
            shard_rows=64,
        )
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 2 * peaks[1], peaks


def test_what_cannot_be_harvested_is_refused_in_words(shared: Any, tmp_path: Path) -> None:
    gpt2, out = shared("gpt2").model, tmp_path / "a"
    wrong: list[tuple[str, dict[str, Any]]] = [
        (r"no site 'blocks\.9\.resid'", {"site": "blocks.9.resid"}),
        ("cannot be stored as int8", {"dtype": "int8"}),
        ("no engine", {"engine": "slurm"}),
        ("reads at most 64", {"context": 65}),
        ("contains no text", {"context": 1}),
        ("rows cannot be 0", {"rows": 0}),
    ]
    for match, options in wrong:
        with pytest.raises(HeedfulError, match=match):
            heedful.harvest(gpt2, TEXTS, **{"site": "embed", "out": out} | options)
    assert not out.exists(), "nothing is written before it is known to work"
    with pytest.raises(HeedfulError, match="what a decoder computes"):
        heedful.harvest(shared("t5").model, TEXTS, "decoder.embed", out)
    with pytest.raises(HeedfulError, match="nothing inside it"):
        heedful.harvest(lambda texts: [[0.0, 1.0] for _ in texts], TEXTS, "embed", out)
    with pytest.raises(HeedfulError, match=r"no texts.*int, not text"):
        heedful.harvest(gpt2, [3, 4], "embed", out)
    with pytest.raises(HeedfulError, match="no file"):
        heedful.harvest(gpt2, tmp_path / "none.txt", "embed", out)


def test_more_workers_than_the_cluster_has_cpus_are_refused(
    shared: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray would wait for a place for the second one without end, and without a word."""
    from heedful.features.activations import ray_harvest

    monkeypatch.setattr(ray_harvest.cluster_of, "_connected", lambda cluster: nullcontext(cluster.workers))
    small = SimpleNamespace(cluster_resources=lambda: {"CPU": 1.0})
    monkeypatch.setitem(sys.modules, "ray", small)
    with pytest.raises(HeedfulError, match=r"2 workers on a cluster of 1 CPUs.*workers=1"):
        heedful.harvest(shared("gpt2").model, TEXTS, "embed", tmp_path / "a", engine="ray", workers=2)


@pytest.mark.slow  # a cluster takes half a minute to start, work and end
def test_ray_gives_the_same_store(tmp_path: Path) -> None:
    """In processes of their own: Ray warns of itself."""
    pytest.importorskip("ray")
    path = tmp_path / "t.txt"
    path.write_text("The state of the union is strong. We are here to work.\n" * 60)
    quiet = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    words = [sys.executable, "-m", "heedful", "features", "harvest", str(path), "--site", "blocks.2.resid"]
    words += ["--context", "32", "--batch-tokens", "128"]
    stores = []
    for engine in (["--engine", "local"], ["--engine", "ray", "--workers", "2"]):
        out = tmp_path / engine[1]
        subprocess.run([*words, *engine, "--out", str(out)], env=quiet, timeout=300, check=True)
        stores.append(ActivationStore.load(out))
    here, there = stores
    assert here.rows > 500
    torch.testing.assert_close(there.slice(0, there.rows), here.slice(0, here.rows))
    assert there.facts.read == here.facts.read
