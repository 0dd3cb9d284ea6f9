"""Peak memory of a long LIME against the model's own forward at the chunk the engine chooses.

Each is measured in a fresh process: the model is loaded and run once on two tokens, the kernel's peak is
reset, and what the work adds at most to the resident set is its peak.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from bench.timing import Ratio

TITLE = "Memory of LIME with 2,000 model inputs, GPT-2 small's size"
ROOT = Path(__file__).parents[1]
ROWS, TOKENS = 2000, 24


def run() -> list[Ratio]:
    if not Path("/proc/self/clear_refs").exists():
        sys.exit("peak memory is read from Linux's /proc, which is not here")
    ours, plain, lean = (_peak(work) for work in ("lime", "forward", "lean"))
    note = "peak memory minus the memory of the loaded model; "
    note += f"{TOKENS} tokens, words deleted, batches of {_chunk()}"
    return [
        _ratio("a forward pass of the model on one such batch", ours, plain, 1.5, note),
        _ratio("the same forward pass, logits only at the last position", ours, lean, None, note),
    ]


def _ratio(rival: str, ours: float, theirs: float, at_most: float | None, note: str) -> Ratio:
    value = ours / theirs
    return Ratio(
        f"{ROWS:,} model inputs",
        rival,
        value,
        value,
        value,
        at_most,
        1,
        ours,
        theirs,
        "MB",
        (ROWS, _chunk()),
        note,
    )


def _chunk() -> int:
    from heedful.models.passes import CHUNK_TOKENS

    return CHUNK_TOKENS // TOKENS


def _peak(work: str) -> float:
    """MB."""
    command = [sys.executable, "-m", "bench.memory", work]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def _status(name: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def measure(work: str) -> None:
    import heedful
    from bench.models import gpt2_size, text_of

    module, tokenizer = gpt2_size()
    model = heedful.load((module, tokenizer))
    x = model.encode(text_of(model, TOKENS))
    with torch.inference_mode():
        module(torch.tensor([[1, 2]]))
    runs = {"lime": lambda: _lime(model, x), "forward": lambda: _forward(module, x, {})}
    runs["lean"] = lambda: _forward(module, x, {"logits_to_keep": 1})
    start = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is resident
    runs[work]()
    print(_status("VmHWM") - start)


def _lime(model: Any, x: Any) -> None:
    from heedful.engine.question import run_explainer

    run_explainer("lime", model, x, model.target(x), samples=ROWS, operator="delete", variant="published")


def _forward(module: Any, x: Any, options: dict[str, int]) -> None:
    with torch.inference_mode():
        module(torch.tensor([x.ids] * _chunk()), **options)


if __name__ == "__main__":
    measure(sys.argv[1])
