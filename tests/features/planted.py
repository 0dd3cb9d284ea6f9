"""Autoencoders whose features are known, for models of the tests."""

from __future__ import annotations

from typing import Any

import torch

from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.config import Config

TEXTS = [
    "the cat sat on the mat. hello world! don't stop, a dog ran to the low house",
    "a dog ran. the low house is on the mat! hello, hello world",
    "don't stop the dog! a cat sat on a low mat, the world ran to the house.",
    "hello cat, hello dog, hello house. the mat is low",
] * 6


def on_tokens(model: Any, tokens: list[str], extra: int = 0) -> SAE:
    """Feature i fires exactly on tokens[i]: for models that put token embeddings e alone into block 0.

    z = e_t.x - 0.75 ||e_t||^2 is above zero on t alone, unless another embedding points its way: checked.
    """
    table = model.module.get_input_embeddings().weight.detach().clone()  # (V, d)
    ids = model.tokenizer.convert_tokens_to_ids(tokens)
    chosen = table[ids]  # (F, d)
    bias = -0.75 * chosen.square().sum(1)
    fires = (table @ chosen.T + bias > 0).nonzero()
    assert sorted(map(tuple, fires.tolist())) == sorted((i, f) for f, i in enumerate(ids))
    d = table.shape[1]
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(extra, d, generator=generator)
    dec = torch.cat([chosen, torch.randn(extra, d, generator=generator)])
    config = Config("relu", d, len(dec), source={"site": "embed", "name": model.name})
    enc = torch.cat([chosen, noise]).T.contiguous()
    whole = torch.cat([bias, torch.zeros(extra)])
    return SAE(config, enc, whole, dec / dec.norm(dim=1, keepdim=True), torch.zeros(d))


def random_sae(d: int, width: int, site: str, seed: int = 0) -> SAE:
    generator = torch.Generator().manual_seed(seed)
    enc = torch.randn(d, width, generator=generator) / d**0.5
    dec = torch.randn(width, d, generator=generator)
    bias = torch.full((width,), -0.5)
    config = Config("relu", d, width, source={"site": site})
    return SAE(config, enc, bias, dec / dec.norm(dim=1, keepdim=True), torch.zeros(d))
