"""MobileNetV2 of torchvision, read with `weights_only=True` → transformers, every weight bit for bit.

The names of the 1,000 classes (imagenet_names.txt) are those of torchvision 0.20.1, models/_meta.py (BSD-3,
Copyright (c) Soumith Chintala 2016). Sandler et al. 2018, "MobileNetV2".
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from heedful.core.errors import HeedfulError
from heedful.models.zoo.convert.folder import Tensors, write_json, write_weights

FILE = "mobilenet_v2-b0353104.pth"
BLOCKS = 17  # features.1 to features.17; the first has no expansion
TENSORS = 314
BATCH_NORM = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def class_names() -> list[str]:
    """The 1,000 classes of ImageNet, in the order of the outputs."""
    return files(__package__).joinpath("imagenet_names.txt").read_text(encoding="utf-8").splitlines()


def layers() -> dict[str, tuple[str, str]]:
    """A convolution of transformers -> the original's convolution and its batch norm."""
    body = "mobilenet_v2."
    found = {
        f"{body}conv_stem.first_conv": ("features.0.0", "features.0.1"),
        f"{body}conv_stem.conv_3x3": ("features.1.conv.0.0", "features.1.conv.0.1"),
        f"{body}conv_stem.reduce_1x1": ("features.1.conv.1", "features.1.conv.2"),
        f"{body}conv_1x1": ("features.18.0", "features.18.1"),
    }
    for block in range(2, BLOCKS + 1):
        here, there = f"{body}layer.{block - 2}", f"features.{block}.conv"
        found[f"{here}.expand_1x1"] = (f"{there}.0.0", f"{there}.0.1")
        found[f"{here}.conv_3x3"] = (f"{there}.1.0", f"{there}.1.1")
        found[f"{here}.reduce_1x1"] = (f"{there}.2", f"{there}.3")
    return found


def convert(source: Path, out: Path) -> None:
    """MobileNetV2ForImageClassification with its image processor."""
    import torch

    kept = torch.load(source / FILE, map_location="cpu", weights_only=True)
    tensors: Tensors = {}
    try:
        for ours, (convolution, norm) in layers().items():
            tensors[f"{ours}.convolution.weight"] = kept[f"{convolution}.weight"].numpy()
            for part in BATCH_NORM:
                tensors[f"{ours}.normalization.{part}"] = kept[f"{norm}.{part}"].numpy()
        tensors["classifier.weight"] = kept["classifier.1.weight"].numpy()
        tensors["classifier.bias"] = kept["classifier.1.bias"].numpy()
    except KeyError as error:
        raise HeedfulError(f"the weights of MobileNetV2 lack {error}") from None
    write_weights(out, tensors, expected=TENSORS)
    write_config(out)


def write_config(out: Path) -> None:
    """Padding and eps are PyTorch's, not TensorFlow's; pictures are resized to 256 and cropped to 224."""
    names = class_names()
    config = {
        "architectures": ["MobileNetV2ForImageClassification"],
        "model_type": "mobilenet_v2",
        "tf_padding": False,
        "layer_norm_eps": 1e-5,
        "classifier_dropout_prob": 0.2,
        "image_size": 224,
        "dtype": "float32",
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {name: i for i, name in enumerate(names)},
    }
    write_json(out / "config.json", config)
    processor = {
        "image_processor_type": "MobileNetV2ImageProcessor",
        "do_resize": True,
        "size": {"shortest_edge": 256},
        "resample": 2,
        "do_center_crop": True,
        "crop_size": {"height": 224, "width": 224},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
    }
    write_json(out / "preprocessor_config.json", processor)
