"""The models that may be asked, and who works with them.

    quick     one thread per model answers what takes milliseconds, in the order of asking
              (heedful.server.model_thread)
    replica   a worker of long jobs has a model of its own: its hooks and settings are its own, the weights
              are the same tensors, so a second user waits for neither and memory is not spent twice

A model that came as a Python object and cannot be copied (a function, a module with functions of its own) has
no replica: jobs take turns with quick questions, under `ServedModel.lock`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from starlette.requests import Request

from heedful.core.errors import HeedfulError
from heedful.core.model import Model
from heedful.models.hf_load import looks_like_hub_id
from heedful.models.load import load
from heedful.server.model_thread import ModelThread, OpenQuestions

MAX_WAITING = 256  # quick questions that may wait for one model,
MAX_WAITING_PER_PEER = 128  # and those of one other machine
MAX_MODELS = 8  # models in memory
ZOO_NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)
Answer = TypeVar("Answer")


@dataclass(eq=False)
class ServedModel:
    """One model."""

    name: str
    source: str | None  # what `heedful.load` takes again; None: it came as an object
    model: Model
    options: Mapping[str, Any] = field(default_factory=dict)  # of `load`
    dictionary: Any = None  # where its features are: a folder, an SAE, or None
    texts: Any = None  # on which features are read
    lock: threading.RLock = field(default_factory=threading.RLock)
    questions: OpenQuestions = field(default_factory=OpenQuestions)  # of all models

    def __post_init__(self) -> None:
        self.worker = ModelThread(self.name, MAX_WAITING, self.questions, MAX_WAITING_PER_PEER)
        self._replicas: dict[int, Model] = {}  # worker of jobs -> model
        self._replica_lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """Questions that wait for this model."""
        return self.worker.queue.qsize()

    async def run_quick(self, request: Request, work: Callable[[Model], Answer]) -> Answer:
        """In the model's own thread."""

        def job() -> Answer:
            with self.lock:
                return work(self.model)

        return await self.worker.run(request, job)

    @contextmanager
    def replica(self, number: int) -> Iterator[Model]:
        """The model of a worker of jobs, for the length of a job."""
        with self._replica_lock:
            if number not in self._replicas:
                self._replicas[number] = self._new_replica()
        replica = self._replicas[number]
        if replica is not self.model:
            yield replica
            return
        with self.lock:
            yield replica

    def _new_replica(self) -> Model:
        if self.source is not None:
            return _share_weights(load(self.source, **self.options), self.model)
        from heedful.models.model_copies import sharing_weights

        return sharing_weights(self.model)


def _share_weights(replica: Model, model: Model) -> Model:
    """The replica with the weights of the model it was loaded beside."""
    if replica.module is not None and model.module is not None:
        for own, shared in zip(replica.module.parameters(), model.module.parameters(), strict=True):
            own.data = shared.data
    return replica


class ModelPool:
    """All of them, by name."""

    def __init__(self, allow_load: bool = False, root: Path | None = None) -> None:
        self.allow_load, self.root = allow_load, root
        self.served: dict[str, ServedModel] = {}
        self.questions = OpenQuestions()
        self._loading = threading.Lock()

    def add(self, source: Any, allow_pickle: bool = False) -> ServedModel:
        """A model of the command line or of Python: anything `heedful.load` takes."""
        named = str(source) if isinstance(source, str | Path) else None
        options: dict[str, Any] = {} if named is None else {"allow_pickle": allow_pickle}
        model = load(source, **options)
        name = named or _free(model.name, self.served)
        served = ServedModel(name, named, model, options, questions=self.questions)
        served.dictionary, served.texts = _beside(named)
        self.served[served.name] = served
        return served

    def get(self, name: str) -> ServedModel:
        if name in self.served:
            return self.served[name]
        known = ", ".join(self.served)
        raise HeedfulError(
            f"there is no model {name[:80]!r} here", f"there is: {known}", "Choose one of them"
        )

    def offered(self) -> list[str]:
        """What may be loaded beside what is loaded: names, never paths."""
        if not self.allow_load:
            return []
        from heedful.models.zoo import resolve

        names = [f"zoo:{entry.name}" for entry in resolve.entries() if resolve.pulled(entry.name)]
        return [name for name in (*names, *self._folders()) if name not in self.served]

    def load(self, name: str) -> ServedModel:
        """What a client asks for, if loading is allowed: a zoo model, a folder of the model root by its name,
        or a hub id that is on this machine already. Nothing is downloaded, no pickle is opened."""
        if name in self.served:
            return self.served[name]
        if not self.allow_load:
            raise HeedfulError(
                "this server loads no other models",
                "it was not started with --allow-load",
                "Choose a given one",
            )
        with self._loading:
            if name in self.served:
                return self.served[name]
            if len(self.served) >= MAX_MODELS:
                raise HeedfulError(
                    f"{MAX_MODELS} models are loaded", "that is the most", "Restart the server"
                )
            place = self._place(name)
            options: dict[str, Any] = {"local_only": True}
            model = load(place, **options)
            served = ServedModel(name, place, model, options, questions=self.questions)
            served.dictionary, served.texts = _beside(name)
            self.served[name] = served
            return served

    def _place(self, name: str) -> str:
        if name.startswith("zoo:") and ZOO_NAME.fullmatch(name.removeprefix("zoo:")):
            return name
        folders = self._folders()
        if name in folders:
            return str(folders[name])
        if looks_like_hub_id(name) and not Path(name).exists():
            return name
        raise HeedfulError(
            f"{name[:80]!r} is no model that may be loaded",
            fix="Name a zoo model, a folder of --models, or a hub id (owner/name) that is on this machine",
        )

    def _folders(self) -> dict[str, Path]:
        """Model folders that stand directly in the root."""
        if self.root is None or not self.root.is_dir():
            return {}
        root = self.root.resolve()
        inside = [place.resolve() for place in sorted(self.root.iterdir()) if place.is_dir()]
        return {p.name: p for p in inside if p.parent == root and (p / "config.json").is_file()}

    def close(self) -> None:
        for served in [*self.served.values()]:
            served.worker.close()

    @property
    def threads(self) -> list[threading.Thread]:
        return [served.worker.thread for served in [*self.served.values()]]


def _free(name: str, taken: Mapping[str, Any]) -> str:
    names: Iterator[str] = (name if n == 1 else f"{name} ({n})" for n in range(1, len(taken) + 2))
    return next(free for free in names if free not in taken)


def _beside(name: str | None) -> tuple[Path | None, Path | None]:
    """The dictionary and the texts that come with an embedded model, where they are there."""
    from heedful.models.zoo import resolve

    if name is None or not name.startswith("zoo:"):
        return None, None
    try:
        folder, texts = resolve.dictionary(name), resolve.held_out(name)
    except HeedfulError:
        return None, None
    there = (folder / "manifest.json").is_file()
    return folder if there else None, texts if texts.is_file() else None


def paired(given: Sequence[str], models: Sequence[str], option: str) -> dict[str, Path]:
    """MODEL=FOLDER, or FOLDER alone where there is one model."""
    paths: dict[str, Path] = {}
    for one in given:
        name, equals, place = one.rpartition("=")
        if not equals and len(models) == 1:
            name = models[0]
        if name not in models or not place:
            raise HeedfulError(
                f"cannot read {option} {one}", f"models here: {', '.join(models)}", "Write MODEL=PLACE"
            )
        paths[name] = Path(place)
    return paths
