"""Weights of an exported torch model, read from an ONNX graph without running it.

Biases, norms and embeddings keep their torch names. A Linear's weight loses its name (it is folded into
`onnx::MatMul_123`) and is stored transposed, but the MatMul node that uses it is named after its module:

    /encoder/encoder/layer.0/attention/self/query/MatMul → encoder.encoder.layer.0.attention.self.query.weight

An int8 export (dynamic quantisation) stores q, scale s and zero point z: w = (q − z)·s in float32.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.models.zoo.convert.folder import Tensors

LINEAR = {"MatMul", "MatMulInteger"}


def read(path: Path) -> Tensors:
    """Every named weight of the graph in torch's layout, dequantised to float32 where it was int8."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    stored: Tensors = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    values = _dequantise(stored)
    named = {name: value for name, value in values.items() if not name.startswith("onnx::")}
    for node in graph.node:
        weight = node.input[1].removesuffix("_quantized") if node.op_type in LINEAR else ""
        if weight in values:
            named[_module(node.name) + ".weight"] = values[weight].T  # (in, out) → (out, in)
    return named


def _dequantise(stored: Tensors) -> Tensors:
    values: Tensors = {}
    for name, value in stored.items():
        if name.endswith(("_scale", "_zero_point")):
            continue
        base = name.removesuffix("_quantized")
        values[base] = (
            value if base == name else _weight(value, stored[base + "_scale"], stored[base + "_zero_point"])
        )
    return values


def _weight(q: NDArray[Any], scale: NDArray[Any], zero: NDArray[Any]) -> NDArray[np.float32]:
    centred = q.astype(np.int32) - zero.astype(np.int32)  # exact
    return centred.astype(np.float32) * scale.astype(np.float32)


def _module(node: str) -> str:
    """`/m/lm_head/MatMul_quant` → `m.lm_head`."""
    return ".".join(node.strip("/").split("/")[:-1])


def rename(tensors: Tensors, prefixes: dict[str, str]) -> Tensors:
    """Keep the tensors whose name starts with one of `prefixes`, under the new prefix."""
    return {
        new + name.removeprefix(old): value
        for name, value in tensors.items()
        for old, new in prefixes.items()
        if name.startswith(old)
    }
