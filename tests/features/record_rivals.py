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

    from heedful.features.sae.autoencoder import SAE
    from heedful.features.sae.config import Config

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
    found = dictionary_learning_losses() | saelens_losses()
    (HERE / "losses.json").write_text(json.dumps(found, indent=1) + "\n")


def dictionary_learning_losses() -> dict[str, Any]:
    from dictionary_learning.trainers.batch_top_k import BatchTopKTrainer
    from dictionary_learning.trainers.jumprelu import JumpReluTrainer
    from dictionary_learning.trainers.matryoshka_batch_top_k import MatryoshkaBatchTopKTrainer
    from dictionary_learning.trainers.standard import StandardTrainer, StandardTrainerAprilUpdate
    from dictionary_learning.trainers.top_k import TopKTrainer

    shape = {"activation_dim": D, "dict_size": WIDTH}
    common = {"steps": 2000, "layer": 0, "lm_name": "toy", "device": "cpu", **shape}
    flat = {"l1_penalty": 2.0, "sparsity_warmup_steps": None}
    halves = {"group_fractions": [0.25, 0.25, 0.5]}
    found: dict[str, Any] = {}
    for name, trainer in {
        "topk": TopKTrainer(k=K, **common),
        "batchtopk": BatchTopKTrainer(k=K, **common),
        "matryoshka": MatryoshkaBatchTopKTrainer(k=K, **halves, **common),
    }.items():
        trainer.ae = shaken(trainer.ae)
        found[f"dictionary-learning {name}"] = trainer.loss(inputs(), step=0).item()
        trainer.num_tokens_since_fired[:] = 20_000_000  # dead, but for those that fire on the four rows
        trainer.top_k_aux = 2
        found[f"dictionary-learning {name} with dead latents"] = trainer.loss(inputs()[:4], step=0).item()
    standard = StandardTrainer(**flat, **common)
    standard.ae = shaken(standard.ae)
    found["dictionary-learning standard l1=2"] = standard.loss(inputs(), step=0).item()
    april = StandardTrainerAprilUpdate(**flat, **common)  # its autoencoder is tied: no bias, no difference
    april.ae = shaken(april.ae)
    april.ae.bias.data.zero_()
    found["dictionary-learning april l1=2, no bias"] = april.loss(inputs(), step=0).item()
    jump = JumpReluTrainer(
        bandwidth=0.5, sparsity_penalty=0.0, sparsity_warmup_steps=None, **common
    )  # its penalty aims at one L0
    jump.ae = shaken(jump.ae)
    error = jump.loss(inputs(), step=0)
    error.backward()
    found["dictionary-learning jumprelu error"] = error.item()
    found["dictionary-learning jumprelu error by threshold, bandwidth .5"] = jump.ae.threshold.grad.tolist()
    return found


def saelens_losses() -> dict[str, Any]:
    from sae_lens import saes
    from sae_lens.saes.sae import TrainStepInput

    def loss(module: Any, **coefficients: float) -> Any:
        return module.training_forward_pass(TrainStepInput(inputs(), coefficients, None, 0, False))

    def given(module: Any, kind: Any, config: Any, **more: Any) -> Any:
        """With the weights of one of the folders above."""
        held = shaken(kind(config(d_in=D, d_sae=WIDTH, **more))).state_dict()
        missing, unknown = module.load_state_dict(held, strict=False)
        assert not unknown
        assert set(missing) <= {"topk_threshold"}
        return module

    shape = {"d_in": D, "d_sae": WIDTH}
    untied = saes.StandardTrainingSAEConfig(apply_b_dec_to_input=False, **shape)
    standard = shaken(saes.StandardTrainingSAE(untied))
    found = {"saelens standard l1=5": loss(standard, l1=5.0).loss.item()}
    jump = saes.JumpReLUTrainingSAEConfig(
        apply_b_dec_to_input=False, jumprelu_sparsity_loss_mode="step", **shape
    )
    module = given(saes.JumpReLUTrainingSAE(jump), saes.JumpReLUSAE, saes.JumpReLUSAEConfig)
    out = loss(module, l0=0.1)
    found["saelens jumprelu l0=0.1"] = out.losses["mse_loss"].item() + out.losses["l0_loss"].item()
    plain = {"k": K, "rescale_acts_by_decoder_norm": False, **shape}
    nested = saes.MatryoshkaBatchTopKTrainingSAEConfig(matryoshka_widths=[4, 8, 16], **plain)
    for name, module in {
        "topk": saes.TopKTrainingSAE(saes.TopKTrainingSAEConfig(**plain)),
        "batchtopk": saes.BatchTopKTrainingSAE(saes.BatchTopKTrainingSAEConfig(**plain)),
        "matryoshka": saes.MatryoshkaBatchTopKTrainingSAE(nested),
    }.items():
        found[f"saelens {name}"] = loss(given(module, saes.TopKSAE, saes.TopKSAEConfig, k=K)).loss.item()
    return found


if __name__ == "__main__":
    saelens()
    dictionary_learning()
    ours()
    losses()
