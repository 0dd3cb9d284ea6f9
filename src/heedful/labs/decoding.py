"""Decoding: one prompt, one model, and what each rule makes of its next-token scores.

    greedy       argmax                                   sample   ~ softmax(logits)
    temperature  ~ softmax(logits / tau)                  top-k    the k best, renormalised
    nucleus      the smallest set of best tokens whose mass reaches p, renormalised ("top-p")
    beam         the best sum of log-probabilities among sequences, several kept open

The model is zoo:lm, which continues presidential prose; heedful.nn reads its weights. The rules are held
against transformers' own (its logits warpers, its generate) and, where all sequences can be listed, against
every one of them.

Drawn: the next-token distribution under each rule; how sure the model is as temperature rises.

Holtzman et al., The Curious Case of Neural Text Degeneration, ICLR 2020; Fan, Lewis & Dauphin 2018 (top-k).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from heedful.core.arrays import Floats
from heedful.core.charts import BarGroup, Bars, Curve, Curves
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.models.toy_lm import Writer, prompts
from heedful.models.load import load_token_model
from heedful.nn import GPT2, beam_search, generate
from heedful.nn.decode import nucleus, sample, temperature, top_k
from heedful.stats.intervals import mean_of, share_of

PROMPT = "The state of the union is"
K, P, COLD, BEAMS = 5, 0.6, 0.5, 4
TEMPERATURES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
SHOWN_TOKENS = 10  # tokens in the figure
GAME_TOKENS, STEPS = 6, 4  # tokens and steps of the game in which every sequence is listed

RULES: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda logits: logits,
    f"temperature {COLD}": lambda logits: temperature(logits, COLD),
    f"top-{K}": lambda logits: top_k(logits, K),
    f"nucleus {P}": lambda logits: nucleus(logits, P),
}
OPTIONS: dict[str, Any] = {
    "greedy": {},
    "sample": {},
    "temperature": {"temperature": COLD},
    "top-k": {"k": K},
    "nucleus": {"p": P},
    "beam": {"beams": BEAMS},
}
THEIRS: dict[str, Any] = {
    f"temperature {COLD}": TemperatureLogitsWarper(COLD),
    f"top-{K}": TopKLogitsWarper(K),
    f"nucleus {P}": TopPLogitsWarper(P),
}


@lab(
    "decoding",
    title="Decoding: one prompt, six rules",
    minutes=1.5,
    cite="Holtzman et al. 2020; Fan, Lewis & Dauphin 2018",
)
def decoding(run: LabRun) -> None:
    model = load_token_model("zoo:lm")
    theirs: Any = model.module
    writer = Writer(model, GPT2.from_transformers(theirs))
    rng = np.random.default_rng(run.seed)
    texts = [PROMPT, *prompts(23 if run.fast else 39, rng)]
    one_prompt(run, writer)
    run.progress(1, 5, "distributions")
    rules(run, writer, texts)
    draws(run, writer, rng)
    run.progress(2, 5, "greedy and beam")
    searches(run, writer, texts, 6 if run.fast else 12)
    run.progress(3, 5, "every sequence")
    every_sequence(run, writer, texts[:10] if run.fast else texts)
    run.progress(4, 5, "repetition")
    repetition(run, writer, texts, 24 if run.fast else 60)


def one_prompt(run: LabRun, writer: Writer) -> None:
    """The next token, and a continuation by each rule."""
    logits = writer.logits(PROMPT)
    best = logits.argsort(descending=True)[:SHOWN_TOKENS]
    law = {name: rule(logits).softmax(-1)[best].tolist() for name, rule in RULES.items()}
    names = [writer.text([token]).strip() or "␣" for token in best]
    groups = [BarGroup(name, [law[rule][i] for rule in law]) for i, name in enumerate(names)]
    run.figure(
        "next-token",
        Bars(groups, list(law), "probability", f"The token after “{PROMPT}”"),
        f"The ten most likely tokens after “{PROMPT}”: the model's probabilities (softmax), and the "
        "probabilities after each rule.",
    )
    run.say("Each of the six rules continues the prompt as follows.")
    start = writer.prompt(PROMPT)
    for name, options in OPTIONS.items():
        ids = generate(writer.ours.next_logits, start, name, new_tokens=20, eos=0, seed=run.seed, **options)
        text = writer.text(ids[len(start) :]).strip().replace("\n", " ")
        run.say(f"{name}: “{PROMPT} {text} …”")


def entropy(logits: Tensor) -> float:
    """In nats."""
    logp = logits.double().log_softmax(-1)
    return float(-(logp.exp() * logp.nan_to_num(neginf=0.0)).sum())


def smallest(logits: Tensor, kept: Tensor, p: float) -> bool:
    """Whether the kept tokens are a smallest set of mass p: they reach it, but not without the least."""
    probs = logits.double().softmax(-1)
    chosen = probs[kept]
    others = probs[~kept]
    reaches, needed = float(chosen.sum()) >= p - 1e-6, float(chosen.sum() - chosen.min()) < p + 1e-6
    return reaches and needed and (len(others) == 0 or float(others.max()) <= float(chosen.min()))


def rules(run: LabRun, writer: Writer, texts: list[str]) -> None:
    """Definitions, and transformers' warpers."""
    rows = [writer.logits(text) for text in texts]
    gaps = []
    for logits in rows:
        for name, warp in THEIRS.items():
            ours, theirs = (
                RULES[name](logits).softmax(-1),
                warp(torch.zeros(1, 1), logits[None])[0].softmax(-1),
            )
            gaps.append(float((ours - theirs).abs().max()))
    value, span = mean_of(gaps)
    run.claim(
        "Temperature, top-k and nucleus give the same probabilities as the transformers library, on every "
        "prompt (number: largest difference, mean over prompts and rules).",
        value=value,
        interval=span,
        holds=max(gaps) < 1e-6,
    )
    spread = np.array([[entropy(temperature(logits, tau)) for tau in TEMPERATURES] for logits in rows])
    value, span = mean_of(spread[:, -1] - spread[:, 0])
    run.claim(
        "The higher the temperature, the less certain is the next token. This is true for each increase "
        "of the temperature and for every prompt (number: increase of the entropy from the lowest to the "
        "highest temperature, in nats).",
        value=value,
        interval=span,
        holds=bool((np.diff(spread, axis=1) > 0).all()),
        against=0.0,
        control="if temperature had no effect",
    )
    kept = [nucleus(logits, P).isfinite() for logits in rows]
    right = [float(smallest(logits, mask, P)) for logits, mask in zip(rows, kept, strict=True)]
    value, span = mean_of([float(mask.sum()) for mask in kept])
    run.claim(
        "A nucleus is the smallest set of most likely tokens that together have the required probability, so "
        "its size depends on the prompt (number: mean size in tokens).",
        value=value,
        interval=span,
        against=K,
        control="size of the top-k set on every prompt",
        holds=min(right) == 1.0
        and len({int(mask.sum()) for mask in kept}) > 1
        and all(int(top_k(logits, K).isfinite().sum()) == K for logits in rows),
    )
    bands = [mean_of(spread[:, i]) for i in range(len(TEMPERATURES))]
    points = [(tau, value) for tau, (value, _) in zip(TEMPERATURES, bands, strict=True)]
    line = Curve("prompts", points, [low for _, (low, _) in bands], [high for _, (_, high) in bands])
    run.figure(
        "temperature",
        Curves([line], "temperature", "entropy (nats)", "Entropy of the next token"),
        "Entropy of the next token by temperature: mean over prompts with its 95 % interval.",
    )


def draws(run: LabRun, writer: Writer, rng: np.random.Generator) -> None:
    """Frequencies of drawn tokens against the law they are drawn from; numpy's sampler beside ours."""
    batches, each = (10, 500) if run.fast else (20, 5000)
    logits = nucleus(writer.logits(PROMPT), P)
    law = logits.double().softmax(-1).numpy()
    plain = writer.logits(PROMPT).double().softmax(-1).numpy()
    source = torch.Generator().manual_seed(run.seed)
    away, theirs, other, inside = [], [], [], True
    for _ in range(batches):
        drawn = sample(logits.expand(each, -1), source).numpy()
        inside &= bool((law[drawn] > 0).all())
        share = np.bincount(drawn, minlength=len(law)) / each
        away.append(variation(share, law))
        other.append(variation(share, plain))
        theirs.append(variation(rng.multinomial(each, law / law.sum()) / each, law))
    apart, error = np.mean(away) - np.mean(theirs), np.hypot(np.std(away), np.std(theirs)) / batches**0.5
    value, span = mean_of(away)
    run.claim(
        "Tokens sampled by heedful.nn are as close to the distribution of the nucleus as tokens sampled by "
        "numpy, and none is outside the nucleus (number: total variation distance).",
        value=value,
        interval=span,
        against=float(np.mean(theirs)),
        control="distance for numpy",
        holds=bool(inside and abs(apart) < 5 * error and np.mean(other) > 2 * np.mean(away)),
    )


def variation(a: Floats, b: Floats) -> float:
    """Total variation."""
    return float(np.abs(a - b).sum() / 2)


@torch.no_grad()
def worth(writer: Writer, ids: Tensor, start: int) -> float:
    """log p of what was written after `start` tokens."""
    logp = writer.ours(ids[None])[0].double().log_softmax(-1)
    return float(logp[torch.arange(start - 1, len(ids) - 1), ids[start:]].sum())


@torch.no_grad()
def searches(run: LabRun, writer: Writer, texts: list[str], length: int) -> None:
    """Greedy and beam against transformers' generate, and against each other."""
    same, gains = [], []
    for text in texts:
        x, start = writer.model.encode(text), writer.prompt(text)
        results = {}
        for rule in ("greedy", "beam"):
            options = OPTIONS[rule]
            results[rule] = generate(
                writer.ours.next_logits, start, rule, new_tokens=length, eos=0, **options
            )
            theirs = writer.model.answer(x, strategy=rule, max_new_tokens=length, **options)
            same.append(float(results[rule][len(start) :].tolist() == list(theirs)))
        beam, greedy = (worth(writer, results[rule], len(start)) for rule in ("beam", "greedy"))
        gains.append(beam - greedy)
    value, span = share_of(np.array(same) == 1.0)
    run.claim(
        "Greedy search and beam search write the same texts as generate() of the transformers library "
        "(number: share of equal texts).",
        value=value,
        interval=span,
        holds=value == 1.0,
    )
    value, span = mean_of(gains)
    run.claim(
        "On average, beam search finds more likely continuations than greedy search (number: difference of "
        "the log-probabilities, in nats).",
        value=value,
        interval=span,
        holds=span[0] > 0,
        against=0.0,
        control="no difference",
    )


@torch.no_grad()
def every_sequence(run: LabRun, writer: Writer, texts: list[str]) -> None:
    """A game of few tokens and steps, in which every sequence can be listed."""
    greedy, narrow, wide = list[float](), list[float](), list[float]()
    for text in texts:
        start = writer.prompt(text)
        tokens = writer.logits(text).topk(GAME_TOKENS).indices  # the only tokens of the game

        def next_logits(ids: Tensor, start: Tensor = start, tokens: Tensor = tokens) -> Tensor:
            written = tokens[ids[:, 1:]]  # the first id only stands for the prompt
            return writer.ours.next_logits(torch.cat([start.expand(len(ids), -1), written], 1))[:, tokens]

        totals = totals_of_all(next_logits)
        best = float(totals.max())
        begin = torch.zeros(1, dtype=torch.long)
        for beams, result in ((1, greedy), (BEAMS, narrow), (GAME_TOKENS ** (STEPS - 1), wide)):
            top = beam_search(next_logits, begin, beams, STEPS, length_penalty=0.0)[0]
            result.append(best - top.score)
    run.table(
        f"Search among all {GAME_TOKENS**STEPS:,} sequences of {STEPS} tokens that use only the "
        f"{GAME_TOKENS} most likely tokens: difference to the log-probability of the best sequence, in nats",
        ["search", "mean difference over prompts", "prompts on which the best sequence is found"],
        [
            [name, np.mean(result), f"{sum(gap < 1e-4 for gap in result)} of {len(result)}"]
            for name, result in (
                ("greedy", greedy),
                (f"{BEAMS} beams", narrow),
                (f"{GAME_TOKENS ** (STEPS - 1)} beams (enough for all sequences)", wide),
            )
        ],
    )
    value, span = mean_of(wide)
    run.claim(
        "Beam search with enough beams finds the most likely of all sequences. Greedy search often misses "
        "this sequence (number: best log-probability minus that of beam search, in nats).",
        value=value,
        interval=span,
        against=float(np.mean(greedy)),
        control="difference with greedy search",
        holds=max(map(abs, wide)) < 1e-4 and float(np.mean(greedy)) > 1e-3 and min(greedy) > -1e-4,
    )


def totals_of_all(next_logits: Callable[[Tensor], Tensor]) -> Tensor:
    """log p of every sequence of the game, prefixes read once each."""
    totals = torch.zeros(1, dtype=torch.float64)
    for step in range(STEPS):
        prefixes = torch.tensor([[0, *some] for some in product(range(GAME_TOKENS), repeat=step)])
        totals = (totals[:, None] + next_logits(prefixes).double().log_softmax(-1)).flatten()
    return totals


def repetition(run: LabRun, writer: Writer, texts: list[str], length: int) -> None:
    """How many different pairs of neighbours does each rule write?"""
    fresh: dict[str, list[float]] = {"greedy": [], "nucleus": []}
    for number, text in enumerate(texts):
        start = writer.prompt(text)
        for rule, result in fresh.items():
            seed = 1000 * run.seed + number  # the nucleus has a mass of 0.9, as published
            ids = generate(writer.ours.next_logits, start, rule, new_tokens=length, seed=seed)
            pairs = list(pairwise(ids[len(start) :].tolist()))
            result.append(len(set(pairs)) / len(pairs))
    run.table(
        f"Share of distinct token pairs among {length} generated tokens",
        ["rule", "mean over prompts"],
        [[rule, np.mean(result)] for rule, result in fresh.items()],
    )
    value, span = mean_of(np.array(fresh["nucleus"]) - np.array(fresh["greedy"]))
    run.claim(
        "Greedy text repeats itself: text by nucleus sampling has a larger share of distinct token pairs "
        "(number: difference of the shares).",
        value=value,
        interval=span,
        holds=span[0] > 0,
        against=0.0,
        control="no difference",
    )
