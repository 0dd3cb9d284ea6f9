"""captum on one picture: ten methods, each as its documentation shows it, in batches as large as heedful's.

`pixels` (1, 3, H, W) are what the network reads. Removals use the same cells and the same colours as
heedful's default operator; sampling methods take as many samples.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class CaptumPicture:
    """A network, a picture, a class, and captum's ten methods by heedful's names."""

    def __init__(
        self, module: Any, pixels: Tensor, removed: Tensor, cells: Tensor, target: int, batch: int
    ) -> None:
        self.module, self.pixels, self.removed, self.cells = module, pixels, removed, cells
        self.target, self.batch, self.rows = target, batch, 0

    def forward(self, pixels: Tensor) -> Tensor:
        """(n, C)"""
        self.rows += len(pixels)
        out: Tensor = self.module(pixels).logits
        return out

    def gradient(self, reduce: str) -> Tensor:
        from captum.attr import Saliency

        found = Saliency(self.forward).attribute(self._leaf(), self.target, abs=False)
        return found.mean(1) if reduce == "avg" else found.norm(p=int(reduce[1]), dim=1)

    def gradient_x_input(self) -> Tensor:
        from captum.attr import InputXGradient

        return InputXGradient(self.forward).attribute(self._leaf(), self.target).sum(1)

    def integrated(self, steps: int) -> Tensor:
        from captum.attr import IntegratedGradients

        found = IntegratedGradients(self.forward).attribute(
            self._leaf(),
            self.removed,
            self.target,
            n_steps=steps,
            internal_batch_size=max(2, self.batch // 2),
        )
        return found.sum(1)

    def smoothed(self, samples: int, noise: float) -> Tensor:
        from captum.attr import InputXGradient, NoiseTunnel

        found = NoiseTunnel(InputXGradient(self.forward)).attribute(
            self._leaf(),
            nt_type="smoothgrad",
            nt_samples=samples,
            nt_samples_batch_size=max(1, self.batch // 2),
            stdevs=noise,
            target=self.target,
        )
        return found.sum(1)

    def gradcam(self, layer: Any) -> Tensor:
        from captum.attr import LayerAttribution, LayerGradCam

        coarse = LayerGradCam(self.forward, layer).attribute(
            self._leaf(), self.target, relu_attributions=True
        )
        return LayerAttribution.interpolate(coarse, self.pixels.shape[2:], "bilinear")

    def occlusion(self) -> Tensor:
        from captum.attr import FeatureAblation

        with torch.inference_mode():
            return FeatureAblation(self.forward).attribute(self.pixels, **self._removal())

    def lime(self, samples: int) -> Tensor:
        from captum.attr import Lime

        with torch.inference_mode():
            return Lime(self.forward).attribute(self.pixels, n_samples=samples, **self._removal())

    def kernel_shap(self, samples: int) -> Tensor:
        from captum.attr import KernelShap

        with torch.inference_mode():
            return KernelShap(self.forward).attribute(self.pixels, n_samples=samples, **self._removal())

    def _leaf(self) -> Tensor:
        return self.pixels.detach().clone().requires_grad_(True)

    def _removal(self) -> dict[str, Any]:
        return {
            "baselines": self.removed,
            "feature_mask": self.cells,
            "target": self.target,
            "perturbations_per_eval": self.batch,
        }
