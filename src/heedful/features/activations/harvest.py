"""`heedful.harvest`: activations of one site, over many texts, to a shuffled store on disk.

    rows x (d,) of a site, one per token of the text; mean E[x] and E‖x‖² are summed on the way

Every pass ends at the site: layers after it are not computed. Texts are streamed, memory is constant. What is
done is known to the batch: killed and started again, the store has the bytes of one that was never stopped,
because batches, their order, their slots and their sums are a function of texts and settings alone.

Cost: one forward up to the site a token, on as many tokens as the texts have.
Needs: a model whose sites can be told (heedful.models.sites.access).
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from heedful.core.defaults import ENGINES
from heedful.core.errors import HeedfulError
from heedful.core.model import Loadable
from heedful.core.progress import Report, Step
from heedful.core.whole_numbers import check_seed
from heedful.engine.ray import Cluster
from heedful.features.activations.extract import HarvestedBatch, HarvestSettings, take
from heedful.features.activations.shuffle import ScatterWriter, Shape, remove_parts
from heedful.features.activations.shuffle import shard_rows as usual_rows
from heedful.features.activations.store import ActivationStore
from heedful.features.activations.store_facts import DTYPES, KIND, StoreFacts
from heedful.features.activations.windows import (
    Batch,
    Cut,
    TextSource,
    batches,
    cut_for,
    first_of,
    open_texts,
    windows,
)
from heedful.io.json_codec import from_jsonable
from heedful.io.sharded_run import ShardedRun, shard_entry
from heedful.models.adapter import TokenModel
from heedful.models.sites.access import width

BATCH_TOKENS = 4096


MAX_LOST_SECONDS = 30.0  # seconds of work that a kill may lose


def harvest(
    model: Loadable,
    texts: Iterable[Any] | str | Path,
    site: str,
    out: str | Path,
    *,
    rows: int | None = None,
    context: int | None = None,
    pack: bool | None = None,
    batch_tokens: int | None = None,
    dtype: str = "float32",
    shard_rows: int | None = None,
    seed: int = 0,
    skip_special: bool = True,
    text_column: str = "text",
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    progress: Report | None = None,
) -> ActivationStore:
    """Store the activations of one place in a model for every token of many texts.

    If a run is interrupted, the same call resumes it.

    Parameters
    ----------
    model
        The result of `heedful.load`, or anything that `heedful.load` accepts.
    texts
        A .txt, .csv, .tsv, .jsonl or .parquet file, or any iterable of texts.
    site
        The place in the model, such as "blocks.1.resid". `heedful features sites MODEL` lists all places.
    out
        Folder for the activations.
    rows
        Stop after this many activations. If `None`, all texts are read.
    context
        Number of tokens that the model reads at once. If `None`, 128 tokens, or the maximum of the model if
        it is smaller.
    pack
        Fill every window with several texts. If `None`, this is done only for causal language models.
    batch_tokens
        Number of tokens per forward pass. If `None`, 4,096 tokens.
    dtype
        Number format: "float32", or "float16", which uses half the space.
    shard_rows
        Number of activations per file. If `None`, 65,536 activations, or 64 MB if that is less.
    seed
        Random seed of the shuffle.
    skip_special
        Leave out special tokens. Their activations are very different from those of other tokens.
    text_column
        Column of the texts in a table file.
    engine
        Where the work runs: "local" (this process) or "ray" (a Ray cluster).
    address
        Address of the Ray cluster. If `None`, a cluster is started on this machine.
    workers
        Number of Ray workers. If `None`, one worker per CPU.
    progress
        A function that is called with a `heedful.core.progress.Step` during the work.

    Returns
    -------
    ActivationStore
        The activations, shuffled, on disk.

    Examples
    --------
    >>> import heedful, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> texts = ["The king is dead.", "Long live the king!"]
    >>> store = heedful.harvest("zoo:lm", texts, "blocks.1.resid", f"{folder.name}/activations")
    >>> store.d
    192
    >>> folder.cleanup()
    """
    from heedful.models.load import load_token_model

    loaded = load_token_model(model, "harvest")
    width(loaded, site)  # what has no such site is refused first
    settings = _settled(
        loaded,
        site,
        dtype,
        cut_for(loaded, context, pack, skip_special),
        batch_tokens=batch_tokens,
        rows=rows,
        shard_rows=shard_rows,
        seed=seed,
        engine=engine,
    )
    source = TextSource(open_texts(texts, text_column))
    place = ShardedRun(Path(out), KIND, "harvest", ignored=("name",))
    made = _made(loaded, settings, source)
    with place.opened(made, f"activations of {site}, {loaded.name}") as manifest:
        if "files" not in manifest or manifest["made"]["texts"]["kind"] == "python":
            work = HarvestWork(place.path, settings, source, progress)
            with _passes(model, loaded, settings, engine, Cluster(address, workers)) as run:
                work.run(loaded, run)
            place.finish(from_jsonable(StoreFacts, manifest["made"] | work.result()), work.shards())
        remove_parts(place.path)
    return ActivationStore.load(out)


@contextmanager
def _passes(
    model: Loadable, loaded: TokenModel, settings: HarvestSettings, engine: str, cluster: Cluster
) -> Iterator[Callable[[Iterator[Batch]], Iterable[HarvestedBatch]]]:
    """Who runs the model."""
    if engine == "local":
        yield lambda todo: (take(loaded, batch, settings) for batch in todo)
        return
    from heedful.features.activations.ray_harvest import passes

    with passes(model, loaded.facts(), settings, cluster) as run:
        yield run


def _settled(model: TokenModel, site: str, dtype: str, cut: Cut, **wish: Any) -> HarvestSettings:
    """Refuses, before any work, what could not be done."""
    check_seed(wish["seed"])
    if wish["engine"] not in ENGINES:
        raise HeedfulError(f"there is no engine {wish['engine']!r}", fix=f"Use one of: {', '.join(ENGINES)}")
    if dtype not in DTYPES:
        raise HeedfulError(f"activations cannot be stored as {dtype}", fix=f"Use one of: {', '.join(DTYPES)}")
    for name in ("rows", "batch_tokens", "shard_rows"):
        if wish[name] is not None and wish[name] < 1:
            raise HeedfulError(f"{name} cannot be {wish[name]}", "it is 1 or more")
    if site.startswith("decoder."):
        raise HeedfulError(
            f"{site} cannot be harvested",
            "what a decoder computes depends on what it has written, and texts are what it reads",
            "Name a site of the encoder",
        )
    d = width(model, site)
    shape = Shape(d, dtype, wish["shard_rows"] or usual_rows(d, dtype), wish["seed"], wish["rows"])
    return HarvestSettings(site, dtype, cut, wish["batch_tokens"] or BATCH_TOKENS, shape)


def _made(model: TokenModel, settings: HarvestSettings, texts: TextSource) -> dict[str, Any]:
    """What a harvest must share with the one it goes on with."""
    from heedful.core.versions import versions

    facts = {key: value for key, value in model.facts().items() if key not in ("name", "shares_prefixes")}
    software = {name: version for name, version in versions().items() if name != "python"}
    return {
        "name": model.name,
        "model": facts,
        "site": settings.site,
        "width": settings.shape.d,
        "dtype": settings.dtype,
        "settings": settings.to_dict(),
        "texts": texts.source.facts(),
        "versions": software,
    }


class HarvestWork:
    """One harvest on its way: what is asked of the model, and what became of it."""

    def __init__(
        self, folder: Path, settings: HarvestSettings, texts: TextSource, progress: Report | None
    ) -> None:
        self.folder, self.settings, self.texts, self.progress = folder, settings, texts, progress
        self.scatter = ScatterWriter(folder, settings.shape)
        self.before, self.kept = self.scatter.state.rows, time.monotonic()
        self.asked: deque[str] = deque()  # digests of batches on their way
        self.cells = self.padding = 0
        self.lines = texts.source.count() if progress is not None else None

    def run(self, model: TokenModel, passes: Callable[[Iterator[Batch]], Iterable[HarvestedBatch]]) -> None:
        """`passes` gives what was taken from each batch, in their order."""
        try:
            for harvested in passes(self._todo(model)):
                self._add(harvested)
        finally:
            self.scatter.stop()

    def _todo(self, model: TokenModel) -> Iterator[Batch]:
        """Batches that are not done yet; those that are must have been the same."""
        settings, done = self.settings, self.scatter.state.batches
        result = windows(self.texts, model, settings.cut)
        digest, count, rows = hashlib.sha256(), 0, 0
        for batch in batches(result, settings.batch_tokens, settings.cut.pad):
            batch = first_of(batch, None if settings.shape.rows is None else settings.shape.rows - rows)
            if not (new := int(batch.keep.sum())):
                if rows == settings.shape.rows:
                    break
                continue
            self.cells += batch.mask.numel()
            self.padding += batch.mask.numel() - int(batch.mask.sum())
            digest.update(batch.ids.numpy().tobytes() + batch.keep.numpy().tobytes())
            count, rows = count + 1, rows + new
            if count == done:
                self._compare(digest.hexdigest())
            if count > done:
                self.asked.append(digest.hexdigest())
                yield batch
        if count < done:
            self._compare("")

    def _compare(self, digest: str) -> None:
        if digest != self.scatter.state.digest:
            raise HeedfulError(
                f"the texts are not those that {self.folder} was harvested from",
                fix="Name another folder, or remove this one",
            )

    def _add(self, harvested: HarvestedBatch) -> None:
        state = self.scatter.state
        self.scatter.add(harvested.rows)  # first: what it keeps on the way must not count this batch as done
        state.batches += 1
        state.digest = self.asked.popleft()
        state.total = (np.array(state.total or 0.0) + harvested.total).tolist()
        state.squares += harvested.squares
        if time.monotonic() - self.kept >= MAX_LOST_SECONDS:
            self.scatter.keep()
            self.kept = time.monotonic()
        if self.progress is not None:
            total = self._foreseen() or 0
            self.progress(Step("harvesting", done=state.rows, total=total, resumed=self.before))

    def _foreseen(self) -> int | None:
        """Rows there will be, by how much of the texts was read."""
        if not self.lines or not self.texts.read:
            return self.settings.shape.rows
        likely = self.texts.tokens * self.lines // self.texts.read
        return likely if self.settings.shape.rows is None else min(likely, self.settings.shape.rows)

    def result(self) -> dict[str, Any]:
        """What is known of a finished store besides how it was made."""
        state = self.scatter.finish()
        if not state.rows:
            text = "; ".join(f"{why} ({count:,} times)" for why, count in self.texts.skipped.items())
            raise HeedfulError("there are no texts", text, "Give at least one that is not empty")
        return {
            "rows": state.rows,
            "batches": state.batches,
            "padding": self.padding / self.cells,
            "skipped": self.texts.skipped,
            "read": state.digest,
            "mean": [value / state.rows for value in state.total],
            "mean_square_norm": state.squares / state.rows,
        }

    def shards(self) -> list[dict[str, Any]]:
        """The files of a finished store, as the manifest lists them."""
        return [
            shard_entry(self.folder, f"shards/{shard['file']}", rows=shard["rows"], sha256=shard["sha256"])
            for shard in self.scatter.state.shards
        ]
