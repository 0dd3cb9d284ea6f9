"""A trained sparse autoencoder: weights, what it was trained for, and how it reads activations.

    a = encode(x) (n, F),   x̂ = a W_dec + b_dec (n, d)

In units of the model's own activations: the scaling to E||x||² = d that training needs is folded into biases
and thresholds (ReLU, TopK and JumpReLU commute with it), so the weight matrices are those that were trained,
and a latent's activation times the length of its decoder row is a length in the model's space.
`config.scale` records it.

On disk: a run folder (heedful.io.run_folder) with sae.safetensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.core.result import NotebookRepr
from heedful.features.sae import architectures
from heedful.features.sae.base import Params, TrainingState
from heedful.features.sae.config import Config
from heedful.features.sae.settings import TrainSettings
from heedful.io.run_folder import MANIFEST, open_run, refusing_damage, result_of, write

if TYPE_CHECKING:
    from heedful.features.sae.formats import Opened

FILE = "sae.safetensors"
WEIGHTS = ("W_enc", "b_enc", "W_dec", "b_dec", "threshold")


@dataclass(frozen=True, eq=False)
class SAE(NotebookRepr):
    """A sparse autoencoder: it describes activations of d dimensions by a few of its F features.

    `sae(x)` reconstructs activations. `SAE.load` also opens folders of SAELens and dictionary-learning.

    Parameters
    ----------
    config
        Kind and sizes of the SAE, and how it was trained.
    W_enc
        Encoder weights, (d, F).
    b_enc
        Encoder biases, (F,).
    W_dec
        Decoder weights, (F, d). One row per feature.
    b_dec
        Decoder bias, (d,).
    threshold
        The activation above which a feature counts as active. For "jumprelu": one threshold per feature,
        (F,). For "topk", "batchtopk" and "matryoshka": one number, negative if it is not known. `None` for
        other kinds.

    Examples
    --------
    >>> import heedful, torch
    >>> sae = heedful.SAE.load("zoo:lm")
    >>> sae
    <batchtopk autoencoder: (192,) to 1,536 features, k = 16>
    >>> sae.encode(torch.zeros(2, 192)).shape
    torch.Size([2, 1536])
    """

    config: Config
    W_enc: Tensor  # (d, F)
    b_enc: Tensor  # (F,)
    W_dec: Tensor  # (F, d)
    b_dec: Tensor  # (d,)
    threshold: Tensor | None = None  # jumprelu (F,); topk, batchtopk, matryoshka (), below 0: not known

    def __repr__(self) -> str:
        c = self.config
        weight = c.source.get("settings", {}).get("sparsity", 0.0)
        sparse = f", k = {c.k}" if c.k is not None else f", lambda = {weight:.4g}" if weight else ""
        why = f"; {c.source['pilot']['why']}" if "pilot" in c.source else ""
        return f"<{c.kind} autoencoder: ({c.d},) to {c.width:,} features{sparse}{why}>"

    def encode(self, x: Tensor) -> Tensor:
        """Feature activations (..., F) of inputs (..., d)."""
        flat = self._flat(x)
        result = architectures.get(self.config.kind).encode(self.params, flat, {"k": self.config.k})
        return result.reshape(*x.shape[:-1], self.config.width)  # type: ignore[no-any-return]

    def decode(self, a: Tensor) -> Tensor:
        """Reconstruct inputs (..., d) from feature activations (..., F)."""
        return a.to(self.W_dec.dtype) @ self.W_dec + self.b_dec

    def __call__(self, x: Tensor) -> Tensor:
        """The reconstruction of x (..., d)."""
        return self.decode(self.encode(x))

    @property
    def params(self) -> Params:
        """A dictionary of the weights. The keys are the names that the architectures use."""
        named = {"enc": self.W_enc.T, "b_enc": self.b_enc, "dec": self.W_dec, "b_dec": self.b_dec}
        return named if self.threshold is None else named | {"threshold": self.threshold}

    def thresholded(self) -> SAE:
        """The same SAE with a threshold instead of top-k. A feature is active if it exceeds the threshold.
        The threshold is the mean of the smallest activations that were kept in training."""
        if self.threshold is None or float(self.threshold.max()) < 0:
            raise HeedfulError(
                "this SAE has no threshold", "training did not record one", "Use encode as it is"
            )
        kind = "batchtopk" if self.config.kind == "topk" else self.config.kind
        config = Config(**{**_shallow(self.config), "kind": kind})
        return SAE(
            config=config,
            W_enc=self.W_enc,
            b_enc=self.b_enc,
            W_dec=self.W_dec,
            b_dec=self.b_dec,
            threshold=self.threshold,
        )

    def save(self, folder: str | Path) -> Path:
        """Write a run folder with the weights as sae.safetensors."""
        from safetensors.torch import save

        results = {name: getattr(self, name) for name in WEIGHTS}
        tensors = {name: t.detach().contiguous() for name, t in results.items() if t is not None}
        return write(folder, self.config, {FILE: save(tensors)})

    @classmethod
    def load(cls, folder: str | Path, *, allow_pickle: bool = False) -> SAE:
        """Open a folder of heedful, SAELens or dictionary-learning. A folder of dictionary-learning contains
        a pickle file, so it needs `allow_pickle=True`.

        "zoo:lm" is the SAE that comes with that model. Weights of half precision become float32.
        """
        place = _place(folder)
        if not (place / MANIFEST).exists() and not (place / FILE).exists():
            from heedful.features.sae import formats

            return _of(formats.opened(place, allow_pickle=allow_pickle))
        from safetensors.torch import load

        run = open_run(place, None)
        config = result_of(run, Config)
        content = run.file(FILE)
        with refusing_damage(place / FILE):
            return _of((config, load(content)))

    def save_saelens(self, folder: str | Path) -> Path:
        """Write cfg.json and sae_weights.safetensors in the format of SAELens."""
        from heedful.features.sae import formats

        return formats.save_saelens(self, folder)

    def _flat(self, x: Tensor) -> Tensor:
        if x.shape[-1] != self.config.d:
            what = f"activations of width {x.shape[-1]} for an autoencoder of width {self.config.d}"
            raise HeedfulError(
                what, "it was trained at another place or model", "Give activations of its site"
            )
        return x.reshape(-1, self.config.d).to(self.W_enc.dtype)


def _shallow(config: Config) -> dict[str, Any]:
    return {name: getattr(config, name) for name in Config.__dataclass_fields__}


def _place(folder: str | Path) -> Path:
    if not str(folder).startswith("zoo:"):
        return Path(folder)
    from heedful.models.zoo import resolve

    return resolve.dictionary(str(folder))


def _of(opened: Opened) -> SAE:
    config, kept = opened
    if config.kind in ("topk", "batchtopk", "matryoshka") and not 1 <= (config.k or 0) <= config.width:
        raise HeedfulError(f"the SAE cannot have k = {config.k}", f"it has {config.width:,} features")
    if not isinstance(config.source.get("settings", {}), Mapping):
        raise HeedfulError("the SAE does not say how it was trained", "its settings are no mapping")
    tensors = {name: t.float() if t.itemsize < 4 else t for name, t in kept.items()}
    shapes = {"W_enc": (config.d, config.width), "b_enc": (config.width,)}
    shapes |= {"W_dec": (config.width, config.d), "b_dec": (config.d,)}
    for name, shape in shapes.items():
        if name not in tensors or tuple(tensors[name].shape) != shape:
            result = tuple(tensors[name].shape) if name in tensors else "nothing"
            raise HeedfulError(f"{name} should have shape {shape}", f"the file holds {result}")
    threshold = tensors.get("threshold")
    if threshold is not None and tuple(threshold.shape) not in ((), (config.width,)):
        raise HeedfulError(
            f"the threshold should have shape () or ({config.width},)",
            f"the file holds {tuple(threshold.shape)}",
        )
    if broken := [name for name in shapes if not bool(tensors[name].isfinite().all())]:
        raise HeedfulError(
            f"{broken[0]} of the SAE has numbers that are not finite", fix="Train the SAE again"
        )
    return SAE(config=config, **{name: tensors[name] for name in shapes}, threshold=threshold)


def fold(
    params: Params, settings: TrainSettings, memory: TrainingState, scale: float, source: Mapping[str, Any]
) -> SAE:
    """The autoencoder of unscaled activations: z(s x) = s z'(x) with biases and thresholds divided by s."""
    k = settings.k if settings.kind in ("topk", "batchtopk", "matryoshka") else None
    config = Config(
        kind=settings.kind,
        d=settings.d,
        width=settings.width,
        k=k,
        prefixes=settings.prefixes,
        scale=scale,
        source=source,
    )
    threshold = None if k is None else memory.threshold.clone()
    if "log_threshold" in params:
        threshold = params["log_threshold"].detach().exp()
    if threshold is not None:
        threshold = torch.where(threshold < 0, threshold, threshold / scale)
    own = {name: value.detach().clone() for name, value in params.items()}
    return SAE(
        config=config,
        W_enc=own["enc"].T.contiguous(),
        b_enc=own["b_enc"] / scale,
        W_dec=own["dec"],
        b_dec=own["b_dec"] / scale,
        threshold=threshold,
    )
