"""`heedful generate`: its options. Heavy imports wait until it runs."""

from __future__ import annotations

from typing import get_args

from heedful.cli import options as o
from heedful.cli.console import (
    read_text,
    silence_libraries,
)
from heedful.cli.typed_command import typed


def generate(
    prompt: o.Prompt = None,
    model: o.Model = "zoo:lm",
    strategy: o.Strategy = "greedy",
    every: o.Every = False,
    max_new_tokens: o.MaxNewTokens = 40,
    temperature: o.Temperature = None,
    top_k: o.TopK = 50,
    top_p: o.TopP = 0.9,
    beams: o.Beams = 4,
    why: o.Why = None,
    unit: o.TextUnit = "word",
    operator: o.Operator = None,
    budget: o.WhyBudget = None,
    seed: o.Seed = 0,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Continue a text, and explain each generated token.

    \b
    heedful generate "Once upon a time"
    heedful generate "Once upon a time" --strategy top-p --top-p 0.8 --seed 3
    heedful generate "Once upon a time" --all
    heedful generate "Once upon a time" --why occlusion --max-new-tokens 8
    heedful generate "Once upon" --why lime --budget 200 --max-new-tokens 2

    --why explains every generated token. Each token takes as long as one run of heedful explain. If you press
    Ctrl-C, the command shows the tokens that are already explained.
    """
    text = read_text(prompt, "prompt")
    silence_libraries()
    from heedful.cli.run_generate import GenerateRequest, Why, command

    options = {"max_new_tokens": max_new_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    chosen = get_args(o.Strategies) if every else (strategy,)
    requested = Why(why or [], unit, operator, budget)
    line = typed(prompt=text)
    wish = GenerateRequest(
        model=model,
        prompt=text,
        strategies=chosen,
        options=options | {"beams": beams},
        why=requested,
        seed=seed,
        allow_pickle=allow_pickle,
        command=line,
    )
    command(wish, as_json, quiet)
