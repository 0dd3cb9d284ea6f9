"""Saliency of generated tokens, ours against inseq and captum, in one process of inseq's own environment.

Prints the ratios as JSON on standard output. `bench/generated.py` starts it.
"""

from __future__ import annotations

import json
import statistics
from typing import Any

import torch

import heedful
from bench.models import gpt2_size, text_of
from bench.timing import Ratio, Rivals, Work, compare_all, seconds

PROMPT, NEW = 64, 16
CONTINUATION = tuple(range(300, 300 + NEW))  # any tokens do: the weights are random
PAIRS = 5


def main() -> None:
    module, tokenizer = gpt2_size()
    model = heedful.load((module, tokenizer))
    ids = model.encode(text_of(model, PROMPT + 8)).ids[:PROMPT]
    prompt = tokenizer.decode(list(ids))
    generated = prompt + tokenizer.decode(list(CONTINUATION))
    assert len(tokenizer(generated)["input_ids"]) == PROMPT + NEW, "the text does not tokenize as meant"

    def ours() -> None:
        heedful.explain_each(model, prompt, ("grad-l2",), continuation=CONTINUATION)

    work = f"saliency of {NEW} tokens after {PROMPT}"
    inseq, captum = _inseq(module, tokenizer, prompt, generated), _captum(module, tokenizer, prompt)
    rivals: Rivals = {"inseq saliency": (inseq, 0.65), "captum LLMGradientAttribution": (captum, None)}
    found = compare_all(work, ours, rivals, pairs=PAIRS)
    forward = statistics.median([seconds(_forward(module)) for _ in range(7)])
    print(json.dumps([_told(ratio, forward).as_dict() for ratio in found]))


def _told(ratio: Ratio, forward: float) -> Ratio:
    note = f"heedful takes {ratio.ours / forward:.1f} F, the rival {ratio.theirs / forward:.1f} F"
    return ratio.told(f"{note}; a model of the size of GPT-2 small with random weights", (1, NEW))


def _forward(module: Any) -> Work:
    ids = torch.arange(128)[None]

    def run() -> None:
        with torch.inference_mode():
            module(ids)

    return run


def _inseq(module: Any, tokenizer: Any, prompt: str, generated: str) -> Work:
    import inseq

    attributed = inseq.load_model(module, "saliency", tokenizer=tokenizer)
    return lambda: attributed.attribute(prompt, generated, show_progress=False, pretty_progress=False)


def _captum(module: Any, tokenizer: Any, prompt: str) -> Work:
    from captum.attr import LayerGradientXActivation, LLMGradientAttribution, TextTokenInput

    method = LLMGradientAttribution(LayerGradientXActivation(module, module.transformer.wte), tokenizer)
    read, target = TextTokenInput(prompt, tokenizer), torch.tensor(CONTINUATION)
    return lambda: method.attribute(read, target=target)


if __name__ == "__main__":
    main()
