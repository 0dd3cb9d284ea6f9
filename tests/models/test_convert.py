"""Converters on tiny inputs: ONNX names, dequantisation, rotary order, lost weights, tokenizers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from heedful.core.errors import HeedfulError
from heedful.models.zoo.convert import folder, onnx_weights, smollm2

onnx = pytest.importorskip("onnx", reason="the zoo extra is not installed")


def _save(path: Path, nodes: list[object], values: dict[str, np.ndarray]) -> Path:
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in values.items()]
    graph = onnx.helper.make_graph(nodes, "test", [], [], tensors)
    onnx.save(onnx.helper.make_model(graph), path)
    return path


def test_a_linear_weight_gets_its_module_name_and_torch_layout(tmp_path: Path) -> None:
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)  # (in, out)
    bias = np.ones(3, dtype=np.float32)
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "onnx::MatMul_7"], ["y"], name="/encoder/layer.0/query/MatMul"),
        onnx.helper.make_node("MatMul", ["y", "z"], ["scores"], name="/encoder/layer.0/MatMul"),  # no weight
    ]
    path = _save(tmp_path / "m.onnx", nodes, {"onnx::MatMul_7": weight, "encoder.layer.0.query.bias": bias})
    tensors = onnx_weights.read(path)
    assert set(tensors) == {"encoder.layer.0.query.weight", "encoder.layer.0.query.bias"}
    assert np.array_equal(tensors["encoder.layer.0.query.weight"], weight.T)


def test_int8_weights_are_dequantised_exactly(tmp_path: Path) -> None:
    values = {
        "onnx::MatMul_1_quantized": np.array([[-128, 127], [0, 5]], np.int8),
        "onnx::MatMul_1_scale": np.array(0.5, np.float32),
        "onnx::MatMul_1_zero_point": np.array(5, np.int8),
        "m.shared.weight_quantized": np.array([[0, 255]], np.uint8),
        "m.shared.weight_scale": np.array(0.25, np.float32),
        "m.shared.weight_zero_point": np.array(128, np.uint8),
    }
    inputs = ["x", "onnx::MatMul_1_quantized", "x_zero", "onnx::MatMul_1_zero_point"]
    nodes = [onnx.helper.make_node("MatMulInteger", inputs, ["y"], name="/m/lm_head/MatMul_quant")]
    tensors = onnx_weights.read(_save(tmp_path / "q.onnx", nodes, values))
    assert set(tensors) == {"m.lm_head.weight", "m.shared.weight"}
    assert tensors["m.lm_head.weight"].tolist() == [[-66.5, -2.5], [61.0, 0.0]]  # no overflow at −128 − 5
    assert tensors["m.shared.weight"].tolist() == [[-32.0, 31.75]]
    assert tensors["m.shared.weight"].dtype == np.float32


def test_rename_keeps_only_what_is_asked_for() -> None:
    one = np.zeros(1)
    found = onnx_weights.rename({"enc.a": one, "encoder.b": one, "x.enc.c": one}, {"enc.": "encoder."})
    assert list(found) == ["encoder.a"]


def test_rotary_rows_are_put_one_half_after_the_other() -> None:
    rows = np.array([[0], [4], [1], [5], [2], [6], [3], [7]])  # one head, d = 8: x0 x4 x1 x5 …
    assert smollm2._halves(rows, heads=1).ravel().tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    two = np.array([[0], [2], [1], [3], [4], [6], [5], [7]])  # two heads, d = 4
    assert smollm2._halves(two, heads=2).ravel().tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_lost_weight_stops_the_conversion(tmp_path: Path) -> None:
    with pytest.raises(HeedfulError, match="found 1 weights instead of 2"):
        folder.write_weights(tmp_path, {"a": np.zeros(2, np.float32)}, expected=2)
    assert list(tmp_path.iterdir()) == []


def test_tokenizers_lose_their_stored_truncation_and_padding(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    stored = {
        "truncation": {"max_length": 128},
        "padding": {"strategy": {"Fixed": 128}},
        "model": {"vocab": ["é"]},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(stored))
    folder.copy_tokenizer(tmp_path, tmp_path / "out")
    kept = json.loads((tmp_path / "out" / "tokenizer.json").read_text(encoding="utf-8"))
    assert kept == {"truncation": None, "padding": None, "model": {"vocab": ["é"]}}
