"""What a config may ask for. Configs come from strangers, and a number can stand for hours or gigabytes.

check_counts   layers, experts and labels, by the names that configs have for them
check_config   reading it: some configs write out short lists
check_size     the network that it asks for, built without memory: not many more parts than the weights
               have tensors, whatever the config calls them, and not much larger than the weights
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from copy import deepcopy
from pathlib import Path
from threading import local
from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from heedful.core.errors import HeedfulError, first_line
from heedful.modalities.limited_copy import LIMITS, limited

MAX_LABELS = 1_000_000
MIN_LAYERS = 256  # so many are believed; more only with as many tensors
MAX_LAYERS = 1024  # where the tensors are not here yet
MAX_EXPERTS = 20_000  # often many of them are one tensor
COUNTS = re.compile(r"layers$|^n(um)?_layer$|blocks$|^depths?$|stages$|repeats$")
MIN_PARTS, PARTS_PER_TENSOR = 2000, 20  # modules and parameters of a network that has so many tensors
MAX_PARTS = 500_000  # where the tensors are not here yet
SAVE_AGAIN = "Save the model again"
SIZE_FACTOR = 4  # weights of 4 bits become numbers of 16 bits
SIZE_SPARE = 256 << 20  # bytes, for tables that are computed and not stored


def check_counts(source: str | Path, facts: dict[str, Any], weights: list[Path]) -> None:
    """Refuse more layers than there are tensors: building them would take hours, and all would be missing.

    source    a folder or a hub id, for the message
    weights   its safetensors files; none: they are not downloaded yet
    """
    most = max(MIN_LAYERS, _tensors(weights)) if weights else MAX_LAYERS
    for name, count in _whole_numbers(facts):
        limit = MAX_LABELS if name == "num_labels" else most if COUNTS.search(name) else None
        limit = MAX_EXPERTS if name.endswith("experts") else limit
        if limit is not None and not 0 <= count <= limit:
            why = f"{name} is {count:,}, and the limit is {limit:,}" if count > 0 else f"{name} is {count:,}"
            raise HeedfulError(f"the config of {source} is refused", why, SAVE_AGAIN)


def check_config(source: str | Path, facts: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Refuse what fills the memory while it is read: some configs write out short lists."""
    from transformers import CONFIG_MAPPING, AutoConfig

    with suppress(Exception):  # imported here and not in the copy: another thread may be importing it, too
        CONFIG_MAPPING[str(facts.get("model_type"))]

    def read() -> bytes:
        with suppress(Exception):  # what cannot be read is told when it is loaded
            AutoConfig.from_pretrained(source, **{**options, "local_files_only": True})  # it is here by now
        return b"ended"

    if not limited(read):
        raise HeedfulError(f"the config of {source} is refused", f"reading it took over {LIMITS}", SAVE_AGAIN)


def check_size(
    source: str | Path, auto: Any, config: Any, weights: list[Path], trust_remote_code: bool
) -> None:
    """Refuse a model that is far larger than its weights: what is missing would be allocated before it is
    refused. The model is built without memory first, as transformers does it, and no further than a model of
    so many tensors can go.

    weights   none: they are not downloaded yet
    """
    from transformers import initialization

    safe = getattr(initialization, "meta_device_safe_creation_ops", nullcontext)  # not in transformers 5.0
    most = MIN_PARTS + PARTS_PER_TENSOR * _tensors(weights) if weights else MAX_PARTS
    try:
        with torch.device("meta"), initialization.no_init_weights(), safe(), limited_parts(source, most):
            model = auto.from_config(deepcopy(config), trust_remote_code=trust_remote_code)
        model.tie_weights()
    except HeedfulError:
        raise
    except Exception:
        return  # loading fails in the same way, and the error is explained there
    if not weights:
        return
    needed = sum(t.numel() * t.element_size() for t in (*model.parameters(), *model.buffers()))
    stored = sum(path.stat().st_size for path in weights)
    if needed > SIZE_FACTOR * stored + SIZE_SPARE:
        raise HeedfulError(
            f"the config of {source} is refused",
            f"it asks for {needed >> 20:,} MB, and the weights have {stored >> 20:,} MB",
            SAVE_AGAIN,
        )


@contextmanager
def limited_parts(source: str | Path, most: int) -> Iterator[None]:
    """Refuse to build a network of more modules and parameters than `most`: whatever a config calls its
    layers, a million of them take hours."""
    _parts.left = most
    try:
        yield
    except _TooManyPartsError:
        why = f"it asks for a network of more than {most:,} parts"
        raise HeedfulError(f"the config of {source} is refused", why, SAVE_AGAIN) from None
    finally:
        _parts.left = None


class _Parts(local):
    """How many parts this thread may still build; None: any number."""

    left: int | None = None


class _TooManyPartsError(Exception):
    """More than `limited_parts` allows."""


_parts = _Parts()


def _count_part(*_: Any) -> None:
    if _parts.left is not None:
        _parts.left -= 1
        if _parts.left < 0:
            raise _TooManyPartsError


# once, and never removed: torch goes over its hooks while other threads build networks
register_module_module_registration_hook(_count_part)
register_module_parameter_registration_hook(_count_part)


def _whole_numbers(facts: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """(name, number) of all that a config holds, in lists and in configs inside it, too. In lists, numbers
    below zero count from the end; depths count as their sum, too."""
    waiting: list[tuple[str, Any]] = [("", facts)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += ((str(key), one) for key, one in value.items())
        elif isinstance(value, list):
            inside = [abs(one) if isinstance(one, int) else one for one in value]
            waiting += ((name, one) for one in inside)
            if name == "depths":
                yield name, sum(min(one, MAX_LABELS) for one in inside if isinstance(one, int))
        elif isinstance(value, int):
            yield name, value


def _tensors(weights: list[Path]) -> int:
    """How many there are in these files."""
    from safetensors import SafetensorError, safe_open

    tensors = 0
    for path in weights:
        try:
            with safe_open(path, "pt") as file:
                tensors += len(file.keys())
        except (OSError, SafetensorError) as error:
            raise HeedfulError(f"{path} cannot be read", first_line(error), SAVE_AGAIN) from None
    return tensors
