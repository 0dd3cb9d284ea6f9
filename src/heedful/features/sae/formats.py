"""Autoencoders of other libraries: folders of SAELens (read and written) and dictionary-learning (read).

    SAELens              cfg.json + sae_weights.safetensors    standard, topk, jumprelu, batchtopk, matryoshka
    dictionary-learning  config.json + ae.pt                   the same, by the names of its classes

Their switches become weights, exactly: a bias taken off the input or not is a change of b_enc
(b_enc ± b_dec W_enc), activations counted times decoder length are W_enc and b_enc times that length. What
cannot be said in our terms (layer norm of inputs, gates, transcoders) is refused. `ae.pt` is a pickle: it is
opened with allow_pickle=True alone, and then only its tensors are (weights_only).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.io.files import read_regular, write_file
from heedful.io.json_codec import json_bytes, json_object
from heedful.io.run_folder import MOST_BYTES, refusing_damage

if TYPE_CHECKING:
    from heedful.features.sae.autoencoder import SAE
    from heedful.features.sae.config import Config

Opened = tuple["Config", dict[str, Tensor]]

# SAELens's architecture, and whether it takes b_dec off the input -> ours
STANDARD = {True: "relu-tied", False: "relu"}
SAELENS = {
    "topk": "topk",
    "jumprelu": "jumprelu",
    "batchtopk": "batchtopk",
    "matryoshka_batchtopk": "matryoshka",
}
DICTIONARIES = {
    "AutoEncoder": "relu-tied",
    "AutoEncoderNew": "relu",
    "AutoEncoderTopK": "topk",
    "BatchTopKSAE": "batchtopk",
    "MatryoshkaBatchTopKSAE": "matryoshka",
    "JumpReluAutoEncoder": "jumprelu",
}
TAKES_OFF = {
    "relu": False,
    "relu-tied": True,
    "topk": True,
    "batchtopk": True,
    "matryoshka": True,
    "jumprelu": False,
}


def opened(folder: Path, *, allow_pickle: bool = False) -> Opened:
    """The autoencoder in a folder of another library."""
    with refusing_damage(folder):
        if (folder / "cfg.json").is_file() and (folder / "sae_weights.safetensors").is_file():
            return _saelens(folder)
        if (folder / "ae.pt").is_file() and (folder / "config.json").is_file():
            return _dictionary_learning(folder, allow_pickle)
    raise HeedfulError(
        f"{folder} contains no SAE",
        "looked for sae.safetensors, SAELens's sae_weights.safetensors and dictionary-learning's ae.pt",
        "Give the folder that contains one of these and its config",
    )


def _saelens(folder: Path) -> Opened:
    from safetensors.torch import load_file

    cfg = json_object(read_regular(folder / "cfg.json", MOST_BYTES))
    results = {name: t.float() for name, t in load_file(folder / "sae_weights.safetensors").items()}
    architecture = cfg.get("architecture", "standard")
    if (
        architecture == "standard"
        and cfg.get("activation_fn_str", cfg.get("activation_fn", "relu")) == "topk"
    ):
        architecture = "topk"  # how older versions wrote it
    takes_off = bool(cfg.get("apply_b_dec_to_input", True))
    kind = STANDARD[takes_off] if architecture == "standard" else SAELENS.get(architecture)
    if kind is None:
        raise _unknown(f"SAELens's architecture {architecture!r}")
    normalises = cfg.get("normalize_activations", "none")
    if normalises not in ("none", "expected_average_only_in"):
        raise _unknown(f"an autoencoder that normalises each input ({normalises})")
    k = cfg.get("k") or (cfg.get("activation_fn_kwargs") or {}).get("k")
    if "log_threshold" in results:
        results["threshold"] = results.pop("log_threshold").exp()
    if "topk_threshold" in results:
        results["threshold"] = results.pop("topk_threshold").float().reshape(())
    if cfg.get("rescale_acts_by_decoder_norm"):
        results = _by_length(results)
    notes = (SCALED,) if normalises != "none" else ()
    prefixes = tuple(cfg.get("matryoshka_widths") or ()) if kind == "matryoshka" else ()
    source = {"library": "SAELens", "metadata": cfg.get("metadata", {})}
    return _ours(kind, results, takes_off, k, prefixes, source, notes)


SCALED = (
    "inputs were scaled in training (expected_average_only_in) and the factor is not in the folder: "
    "if it was not folded in, give scaled inputs"
)


def _dictionary_learning(folder: Path, allow_pickle: bool) -> Opened:
    if not allow_pickle:
        raise HeedfulError(
            f"{folder / 'ae.pt'} is a pickle", "pickles can run code", "If you trust it: allow_pickle=True"
        )
    trainer = json_object(read_regular(folder / "config.json", MOST_BYTES))["trainer"]
    kind = DICTIONARIES.get(trainer.get("dict_class", ""))
    if kind is None:
        raise _unknown(f"dictionary-learning's {trainer.get('dict_class')!r}")
    state = torch.load(folder / "ae.pt", map_location="cpu", weights_only=True)
    results = {name: t.float() for name, t in state.items()}
    if "encoder.weight" in results:
        b_dec = next(results[name] for name in ("b_dec", "bias", "decoder.bias") if name in results)
        results |= {"W_enc": results["encoder.weight"].T, "b_enc": results["encoder.bias"]}
        results |= {"W_dec": results["decoder.weight"].T, "b_dec": b_dec}
    sizes = state["group_sizes"].tolist() if "group_sizes" in state else trainer.get("group_sizes") or []
    prefixes = tuple(int(sum(sizes[: i + 1])) for i in range(len(sizes)))
    k = int(state["k"]) if "k" in state else trainer.get("k")
    source = {
        "library": "dictionary-learning",
        "model": trainer.get("lm_name"),
        "site": trainer.get("submodule_name"),
    }
    return _ours(kind, results, TAKES_OFF[kind], k, prefixes, source, ())


def _ours(
    kind: str,
    held: Mapping[str, Tensor],
    takes_off: bool,
    k: int | None,
    prefixes: tuple[int, ...],
    source: Mapping[str, Any],
    notes: tuple[str, ...],
) -> Opened:
    """Weights and config in our terms; the input bias moves into b_enc where our kind treats it otherwise."""
    from heedful.features.sae.config import Config

    missing = [name for name in ("W_enc", "b_enc", "W_dec", "b_dec") if name not in held]
    if missing:
        raise HeedfulError(f"the file contains no {missing[0]}", f"it contains {', '.join(sorted(held))}")
    d, width = held["W_enc"].shape
    moved = held["b_dec"] @ held["W_enc"]  # (F,)
    shift = (int(TAKES_OFF[kind]) - int(takes_off)) * moved
    tensors = {name: held[name].contiguous() for name in ("W_enc", "W_dec", "b_dec")}
    tensors["b_enc"] = held["b_enc"] + shift
    if "threshold" in held and kind not in ("relu", "relu-tied"):
        tensors["threshold"] = held["threshold"].contiguous()
    count = int(k) if k is not None and kind in ("topk", "batchtopk", "matryoshka") else None
    return Config(
        kind=kind, d=d, width=width, k=count, prefixes=prefixes, scale=1.0, source=dict(source), notes=notes
    ), tensors


def _by_length(held: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Activations counted times decoder length, as weights: decoders of length one."""
    length = held["W_dec"].norm(dim=1)
    return {
        **held,
        "W_enc": held["W_enc"] * length,
        "b_enc": held["b_enc"] * length,
        "W_dec": held["W_dec"] / length[:, None],
    }


def _unknown(what: str) -> HeedfulError:
    kinds = "relu, relu-tied, topk, batchtopk, jumprelu, matryoshka"
    return HeedfulError(
        f"cannot read {what}", f"heedful knows {kinds}", "Read it with the library that wrote it"
    )


def save_saelens(sae: SAE, folder: str | Path) -> Path:
    """A folder that SAELens's SAE.load_from_disk reads; batchtopk and matryoshka become jumprelu."""
    from safetensors.torch import save

    kind, width = sae.config.kind, sae.config.width
    architecture = {"relu": "standard", "relu-tied": "standard", "topk": "topk"}.get(kind, "jumprelu")
    tensors = {
        name: getattr(sae, name).detach().contiguous() for name in ("W_enc", "b_enc", "W_dec", "b_dec")
    }
    cfg: dict[str, Any] = {
        "architecture": architecture,
        "d_in": sae.config.d,
        "d_sae": width,
        "dtype": "float32",
        "device": "cpu",
        "apply_b_dec_to_input": TAKES_OFF[kind],
        "normalize_activations": "none",
        "reshape_activations": "none",
        "metadata": {"heedful_kind": kind, "model_name": str(sae.config.source.get("model", ""))},
    }
    if architecture == "topk":
        cfg |= {"k": sae.config.k, "rescale_acts_by_decoder_norm": False}
    if architecture == "jumprelu":
        if sae.threshold is None:
            raise HeedfulError("this SAE has no threshold", fix="Train it for longer, then save it")
        tensors["threshold"] = sae.threshold.clamp(min=0).expand(width).contiguous()
    place = Path(folder)
    write_file(place / "sae_weights.safetensors", save(tensors))
    write_file(place / "cfg.json", json_bytes(cfg))
    return place
