"""Sparse autoencoders, one file pern architecture; each has the same three functions.

start(settings, x) -> params                       initial weights; x is a batch
encode(params, x, config) -> (n, F)                activations at inference
loss(params, x, settings, step, memory) -> Outcome pure: nothing is changed, gradients by autograd
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from heedful.features.sae.settings import KINDS

HOME = {kind: f"{__name__}.{kind.replace('-', '_')}" for kind in KINDS}


def get(kind: str) -> ModuleType:
    """The module of an architecture."""
    return import_module(HOME[kind])
