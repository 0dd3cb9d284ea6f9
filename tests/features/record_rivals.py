"""Records what SAELens and dictionary-learning make of small autoencoders, for test_foreign.py.

They need an environment of their own (sae-lens pins transformer-lens < 4):

    python -m venv rivals && rivals/bin/pip install sae-lens==6.54.12 dictionary-learning==0.1.0 typer
    rivals/bin/pip uninstall -y torchvision
    PYTHONPATH=src rivals/bin/python tests/features/record_rivals.py

Each folder of tests/features/rivals holds an autoencoder as its library writes it, and seen.safetensors:
inputs, activations and reconstructions of that library; heedful-* are written by heedful and read by SAELens.
losses.json holds training losses of both libraries at given weights.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

D, WIDTH, K, ROWS = 6, 16, 3, 12
HERE = Path(__file__).parent / "rivals"


def shaken(module: Any) -> Any:
    """No zero biases, no unit decoders: what is left out must show."""
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, p in module.named_parameters():
            noise = torch.rand(p.shape, generator=draw)
            p.copy_(0.2 + 0.3 * noise if "threshold" in name else noise - 0.4)
    return module


def inputs() -> torch.Tensor:
    return torch.randn(ROWS, D, generator=torch.Generator().manual_seed(2)) + 0.2


def seen(folder: Path, module: Any, **how: Any) -> None:
    with torch.no_grad():
        codes = module.encode(inputs(), **how)
        tensors = {"x": inputs(), "codes": codes.to_dense(), "decoded": module.decode(codes)}
    assert (tensors["codes"] > 0).any()
    assert (tensors["codes"] == 0).any()
    save_file({n: t.contiguous() for n, t in tensors.items()}, folder / "seen.safetensors")


def saelens() -> None:
    from sae_lens import saes

    wanted = {
        "standard": (saes.StandardSAE, saes.StandardSAEConfig, {}),
        "standard-untied": (saes.StandardSAE, saes.StandardSAEConfig, {"apply_b_dec_to_input": False}),
        "topk": (saes.TopKSAE, saes.TopKSAEConfig, {"k": K}),
        "topk-untied": (saes.TopKSAE, saes.TopKSAEConfig, {"k": K, "apply_b_dec_to_input": False}),
        "topk-lengths": (saes.TopKSAE, saes.TopKSAEConfig, {"k": K, "rescale_acts_by_decoder_norm": True}),
        "jumprelu": (saes.JumpReLUSAE, saes.JumpReLUSAEConfig, {"apply_b_dec_to_input": False}),
        "jumprelu-tied": (saes.JumpReLUSAE, saes.JumpReLUSAEConfig, {}),
    }
    for name, (kind, config, more) in wanted.items():
        module = shaken(kind(config(d_in=D, d_sae=WIDTH, **more)))
        module.save_model(HERE / f"saelens-{name}")
        seen(HERE / f"saelens-{name}", module)


def dictionary_learning() -> None:
    from dictionary_learning.dictionary import AutoEncoder, AutoEncoderNew, JumpReluAutoEncoder
    from dictionary_learning.trainers.batch_top_k import BatchTopKSAE
    from dictionary_learning.trainers.matryoshka_batch_top_k import MatryoshkaBatchTopKSAE
    from dictionary_learning.trainers.top_k import AutoEncoderTopK

    made = [
        AutoEncoder(D, WIDTH),
        AutoEncoderNew(D, WIDTH),
        AutoEncoderTopK(D, WIDTH, K),
        BatchTopKSAE(D, WIDTH, K),
        MatryoshkaBatchTopKSAE(D, WIDTH, K, [4, 4, 8]),
        JumpReluAutoEncoder(D, WIDTH),
    ]
    for module in map(shaken, made):
        name = type(module).__name__
        if "BatchTopK" in name:
            module.threshold.fill_(0.25)
        folder = HERE / f"dictionary-learning-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(module.state_dict(), folder / "ae.pt")
        trainer = {"dict_class": name, "k": K, "lm_name": "toy", "submodule_name": "layer_1"}
        (folder / "config.json").write_text(json.dumps({"trainer": trainer}))
        seen(folder, module)


def ours() -> None:
    """heedful's autoencoders as SAELens reads them."""
    from sae_lens import SAE as Theirs

    from heedful.features.sae import SAE, Config

    draw = torch.Generator().manual_seed(3)
    shapes = ((D, WIDTH), (WIDTH,), (WIDTH, D), (D,))
    for kind in ("relu", "relu-tied", "topk", "batchtopk", "jumprelu"):
        threshold = {"jumprelu": torch.rand(WIDTH, generator=draw), "batchtopk": torch.tensor(0.4)}.get(kind)
        weights = [torch.randn(shape, generator=draw) for shape in shapes]
        k = K if kind in ("topk", "batchtopk") else None
        folder = SAE(Config(kind, D, WIDTH, k), *weights, threshold).save_saelens(HERE / f"heedful-{kind}")
        seen(folder, Theirs.load_from_disk(folder))


def losses() -> None:
    """Training losses at weights that are read back from the folders above."""
    from dictionary_learning.trainers.top_k import TopKTrainer
    from sae_lens import saes
    from sae_lens.saes.sae import TrainStepInput

    found: dict[str, float] = {}
    trainer = TopKTrainer(
        steps=2000, activation_dim=D, dict_size=WIDTH, k=K, layer=0, lm_name="toy", device="cpu"
    )
    trainer.ae = shaken(trainer.ae)
    found["dictionary-learning topk"] = trainer.loss(inputs(), step=0).item()
    trainer.num_tokens_since_fired[:8] = 20_000_000
    trainer.top_k_aux = 2
    found["dictionary-learning topk with dead latents"] = trainer.loss(inputs(), step=0).item()

    def step(coefficients: dict[str, float]) -> TrainStepInput:
        return TrainStepInput(inputs(), coefficients, None, 0, False)

    config = saes.StandardTrainingSAEConfig(d_in=D, d_sae=WIDTH, apply_b_dec_to_input=False)
    standard = shaken(saes.StandardTrainingSAE(config))
    found["saelens standard l1=5"] = standard.training_forward_pass(step({"l1": 5.0})).loss.item()
    jump = saes.JumpReLUTrainingSAEConfig(
        d_in=D, d_sae=WIDTH, apply_b_dec_to_input=False, jumprelu_sparsity_loss_mode="step"
    )
    module = saes.JumpReLUTrainingSAE(jump)
    held = shaken(saes.JumpReLUSAE(saes.JumpReLUSAEConfig(d_in=D, d_sae=WIDTH))).state_dict()
    module.load_state_dict(held)
    out = module.training_forward_pass(step({"l0": 0.1}))
    found["saelens jumprelu l0=0.1"] = out.losses["mse_loss"].item() + out.losses["l0_loss"].item()
    (HERE / "losses.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    saelens()
    dictionary_learning()
    ours()
    losses()
