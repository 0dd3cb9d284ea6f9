"""The user's model is left exactly as it was, by every entry point, whatever happens inside."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.core import registry
from heedful.core.errors import HeedfulError
from heedful.models.load import load

HOOKS = [
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
]
FAMILIES = ["bert", "mean-pool", "gpt2", "gpt2-classifier", "llama", "t5", "bart", "bart-classifier"]


def explain_or_refuse(model: Any, name: str) -> None:
    """A refusal must leave the model alone as well."""
    few = {"samples": 32} if name == "anchors" else {}
    with contextlib.suppress(heedful.HeedfulError):
        heedful.explain(model, "the cat sat on the mat", [name], params={name: few})


def configs(module: Any) -> dict[int, Any]:
    found = {id(m.config): m.config for m in module.modules() if hasattr(m, "config")}
    generation = getattr(module, "generation_config", None)
    return found | ({id(generation): generation} if generation is not None else {})


def state(module: Any) -> dict[str, Any]:
    """Everything a user could notice."""
    return {
        "parameters": {name: p.detach().clone() for name, p in module.named_parameters()},
        "buffers": {name: b.detach().clone() for name, b in module.named_buffers()},
        "identity": [id(p) for p in module.parameters()],
        "grad": [(id(p.grad), None if p.grad is None else p.grad.clone()) for p in module.parameters()],
        "requires_grad": [p.requires_grad for p in module.parameters()],
        "where": [(p.dtype, p.device) for p in module.parameters()],
        "training": [m.training for m in module.modules()],
        "hooks": [{t: list(getattr(m, t).items()) for t in HOOKS} for m in module.modules()],
        "attributes": [list(vars(m)) for m in module.modules()],
        "submodules": [id(m) for m in module.modules()],
        "configs": {key: config.to_dict() for key, config in configs(module).items()},
        "attention": [getattr(c, "_attn_implementation", None) for c in configs(module).values()],
        "random": torch.get_rng_state(),
        "numpy": str(np.random.get_state()),  # noqa: NPY002
        "grad mode": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "threads": torch.get_num_threads(),
    }


def assert_same(before: Any, after: Any, path: str = "") -> None:
    if isinstance(before, torch.Tensor):
        assert torch.equal(before, after), path
    elif isinstance(before, dict):
        assert before.keys() == after.keys(), path
        for key in before:
            assert_same(before[key], after[key], f"{path}/{key}")
    elif isinstance(before, list | tuple):
        assert len(before) == len(after), path
        for i, pair in enumerate(zip(before, after, strict=True)):
            assert_same(*pair, f"{path}/{i}")
    else:
        assert before == after, path


def lived_in(family: Any, training: bool, attention: str) -> list[str]:
    """A model in use: hooks of its own, gradients, frozen parts, mixed modes. Returns the log of its hook."""
    hf, log = family.hf, []
    hf.train(training)
    hf.get_input_embeddings().train(not training)  # one part in the other mode
    hf.set_attn_implementation(attention)
    parameters = list(hf.parameters())
    parameters[0].grad = torch.ones_like(parameters[0])
    parameters[-1].requires_grad_(False)
    encoder = hf.get_encoder() if hf.config.is_encoder_decoder else hf
    encoder.get_input_embeddings().register_forward_hook(lambda *_: log.append("seen"))
    hf.register_forward_pre_hook(lambda *_: None)
    return log


def entry_points(model: Any) -> dict[str, Callable[[], Any]]:
    x = model.encode("the cat sat on the mat")
    target = model.target(x)
    keep = ~np.eye(len(x.units("word")), dtype=bool)
    calls: dict[str, Callable[[], Any]] = {
        "encode": lambda: model.encode("the cat"),
        "capabilities": lambda: model.capabilities,
        "facts": model.facts,
        "predict": lambda: model.predict(x),
        "logits": lambda: model.logits(x),
        "target": lambda: model.target(x),
        "trace": lambda: model.trace(x, target, hidden=True),
        "support": lambda: registry.support(model),
    }
    calls |= {
        f"explain {name}": lambda name=name: explain_or_refuse(model, name) for name in registry.explainers()
    }
    calls |= {f"rows {op}": lambda op=op: model.values(x, target, keep, op) for op in model.operators}
    if "generate" in model.capabilities:
        strategies = ("greedy", "sample", "temperature", "top-k", "top-p", "beam")
        calls |= {
            f"generate {s}": lambda s=s: model.generate("the cat", s, max_new_tokens=2) for s in strategies
        }
    return calls


@pytest.mark.parametrize(("training", "attention"), [(True, "sdpa"), (False, "eager")])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_entry_point_leaves_the_model_as_it_was(
    fresh: Any, name: str, training: bool, attention: str
) -> None:
    family = fresh(name)
    log = lived_in(family, training, attention)
    before = state(family.hf)
    model = load((family.hf, family.tokenizer))
    assert_same(before, state(family.hf), "load")
    for entry, call in entry_points(model).items():
        call()
        assert_same(before, state(family.hf), entry)
    assert log  # the user's own hook still runs


@pytest.mark.parametrize("name", ["bert", "gpt2", "bart"])
def test_an_exception_in_the_middle_leaves_no_trace(fresh: Any, name: str) -> None:
    family = fresh(name)
    lived_in(family, True, "sdpa")
    calls = entry_points(family.model)
    layer = list(family.hf.modules())[-3]

    class Stop(Exception):
        pass

    def explode(*_: Any) -> None:
        raise Stop

    layer.register_forward_hook(explode)
    before = state(family.hf)
    stopped = set()
    for entry, call in calls.items():
        try:
            call()
        except Stop:
            stopped.add(entry)
        assert_same(before, state(family.hf), entry)
    # what never runs the model, or is refused for it, is not stopped
    assert {"predict", "target", "trace", "explain grad-l2", "explain occlusion"} <= stopped


def test_an_error_of_ours_leaves_no_trace(fresh: Any) -> None:
    family = fresh("bert")
    lived_in(family, True, "sdpa")
    with torch.no_grad():
        family.hf.classifier.bias[0] = float("nan")
    x = family.model.encode("the cat")
    target = heedful.Target(kind="class", index=0)
    before = state(family.hf)
    before["parameters"].pop("classifier.bias")  # NaN is not equal to itself
    for call in (lambda: family.model.trace(x, target), lambda: family.model.predict(x)):
        with pytest.raises(HeedfulError, match="NaN"):
            call()
        after = state(family.hf)
        after["parameters"].pop("classifier.bias")
        assert_same(before, after)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_the_callers_grad_mode_neither_matters_nor_changes(shared: Any, mode: Any) -> None:
    family = shared("gpt2")
    x = family.x()
    target = family.model.target(x)
    expected = family.model.trace(x, target).grad_embeds
    with mode():
        before = (torch.is_grad_enabled(), torch.is_inference_mode_enabled())
        found = family.model.trace(x, target).grad_embeds
        family.model.values(x, target, np.ones((1, len(x.units("word"))), dtype=bool), "mean")
        assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == before
        torch.testing.assert_close(found, expected)


def test_dropout_is_off_even_in_training_mode(fresh: Any) -> None:
    family = fresh("bert")
    x = family.x()
    target = family.model.target(x)
    keep = np.ones((1, len(x.units("word"))), dtype=bool)
    expected = family.model.values(x, target, keep)
    family.hf.train()
    np.testing.assert_array_equal(family.model.values(x, target, keep), expected)
    assert family.model.trace(x, target).output == pytest.approx(expected[0], abs=1e-5)


def test_results_do_not_keep_the_graph_alive(shared: Any) -> None:
    family = shared("gpt2")
    x = family.x()
    trace = family.model.trace(x, family.model.target(x))
    tensors = [trace.embeds, trace.grad_embeds, *trace.attentions, *trace.grad_attentions]
    assert not any(tensor.requires_grad or tensor.grad_fn for tensor in tensors)


def test_a_scoped_hook_goes_by_itself() -> None:
    """Two locks on one door: `untouched` would remove it as well."""
    from heedful.models.contexts import hooked

    layer = torch.nn.Linear(2, 2)
    with pytest.raises(ZeroDivisionError), hooked(layer, lambda *_: None):
        raise ZeroDivisionError
    assert not layer._forward_hooks
