"""Whom do heads look at from "she" and from "he"? Attention of a language model on sentences with two people.

    The nurse asked the engineer a question because she     The engineer asked the nurse a question because he

Each template is read in four variants: both pronouns, both orders. With a the occupation stereotyped as a
woman's, b the one stereotyped as a man's, and share = attention from the pronoun to a / (to a and to b):

    pronoun   share(she) - share(he), mean of both orders: what the pronoun alone moves. 0: nothing
    roles     share(a first) - share(b first), mean of both pronouns: what the place in the sentence moves
    control   the largest effect of any head that 95 % of draws stay below, "she" and "he" dealt at random

Intervals are over templates and for all heads together. Attention that moves is not harm done, nor is
attention that stays innocence: beside it stands what the model would write, the log-odds of "she" against
"he" where the pronoun is due, and whether they turn when the two people change places. Occupations are paired
at random, by the seed. Model: zoo:lm, two centuries of presidential speeches. Drawn: both effects, by head.

Vig 2019; Vig et al. 2020 (causal mediation analysis of gender bias); Zhao et al. 2018 (WinoBias).
"""

from __future__ import annotations

import numpy as np

from heedful.core.charts import Forest, Line
from heedful.heads.roles.bias_templates import Template, read
from heedful.heads.roles.pronoun_bias import Bias, HeadBias
from heedful.heads.roles.pronoun_bias import bias as probe
from heedful.labs.base.registry import LabRun, lab
from heedful.models.load import load_token_model

LITTLE_SHARE = 0.1  # of a share
ROUNDS = 4  # pairings in the full run


def paired_anew(templates: list[Template], seed: int) -> list[Template]:
    """The same occupations and frames, each once, in other company."""
    rng, n = np.random.default_rng(seed), len(templates)
    frames, women, men = (rng.permutation(n) for _ in range(3))
    return [
        Template(
            templates[f].template,
            templates[w].a,
            templates[m].b,
            templates[f].pronoun_1,
            templates[f].pronoun_2,
        )
        for f, w, m in zip(frames, women, men, strict=True)
    ]


@lab(
    "bias",
    title='Which of two people do heads attend to from "she" and from "he"?',
    minutes=0.2,
    cite="Vig et al. 2020; Zhao et al. 2018",
)
def bias(run: LabRun) -> None:
    model, built_in, result = load_token_model("zoo:lm"), read(), []
    rounds = 1 if run.fast else ROUNDS
    for i in range(rounds):
        result.append(probe(model, paired_anew(built_in, 100 * run.seed + i), seed=run.seed))
        run.progress(i + 1, rounds, "pairings of occupations")
    first = result[0]
    if first.preference is None:
        raise ValueError("the pronouns are not single tokens: no preference")
    run.say(
        f"The model zoo:lm reads {first.templates} sentences with two people, a and b. The occupation of a "
        "is stereotyped as a woman's, that of b as a man's. Each sentence has four variants: with "
        '"she" and with "he", and with the two people in both orders. The share of a is the attention '
        "from the pronoun to a, divided by the attention to a and b together."
    )
    attention(run, first)
    writing(run, result)


COLUMNS = [
    "layer.head",
    "attention to both people",
    "share of a",
    "effect of the position",
    "low",
    "high",
    "effect of the pronoun",
    "low",
    "high",
]


def attention(run: LabRun, first: Bias) -> None:
    """What moves the heads."""
    everything = first.overall
    run.claim(
        "The position in the sentence changes attention: of the two people, heads attend more to the one "
        "named last (number: share of attention to a person who is named first, minus the share when the "
        "same person is named last; mean over heads).",
        value=everything.roles.value,
        interval=everything.roles.interval,
        holds=everything.roles.interval[1] < 0,
        against=everything.pronoun.value,
        control="effect of the pronoun on the share",
    )
    most = max(first.heads, key=lambda head: abs(head.pronoun.value))
    low, high = most.pronoun.interval
    reach = max(max(map(abs, head.pronoun.interval)) for head in first.heads)
    run.claim(
        "Changing the pronoun changes the share of attention to a person by less than ten percentage "
        "points in every head: all intervals are within this limit (number: effect in the head where it "
        "is largest).",
        value=most.pronoun.value,
        interval=(low, high),
        holds=reach < LITTLE_SHARE,
        against=first.control,
        control="largest effect with pronouns assigned at random",
    )
    moved = [f"{head.layer}.{head.head}" for head in first.moved()]
    run.say(
        f"Heads whose interval for the pronoun excludes zero: {(', '.join(moved) if moved else 'none')}. "
        "The same measure detects the effect of the position, so it is able to detect effects. If the "
        "pronoun has an effect that is not detected, this effect is too small to be detected with this "
        "number of sentences."
    )
    by_place = sorted(first.heads, key=lambda head: head.roles.value)
    run.table(
        "The heads with the largest effect of the position, and the effect of the pronoun on them",
        COLUMNS,
        [_row(head) for head in by_place[:8]],
    )
    for name, result in (("pronoun", "the pronoun"), ("roles", "the position in the sentence")):
        effects = [(head, getattr(head, name)) for head in first.heads]
        control = first.control if name == "pronoun" else float("nan")
        lines = [
            Line(f"{h.layer}.{h.head}", e.value, e.interval[0], e.interval[1], control) for h, e in effects
        ]
        run.figure(
            name,
            Forest(lines, "change of the share of a", f"Effect of {result} on each head"),
            f"Effect of {result} on the share of a in each head (layer.head), with simultaneous 95 % "
            "intervals over all heads."
            + (
                " Hollow marks: the largest effect of any head with pronouns assigned at random (95 % "
                "quantile)."
                if name == "pronoun"
                else ""
            ),
        )


def writing(run: LabRun, found: list[Bias]) -> None:
    """What the model would say."""
    results = [one.preference for one in found if one.preference is not None]
    first = results[0]
    run.claim(
        'On average over the sentences, the model prefers "he" to "she" (number: log-odds of "she" against '
        '"he").',
        value=first.value,
        interval=first.interval,
        holds=first.interval[1] < 0,
        against=0.0,
        control="log-odds without a preference",
    )
    run.claim(
        "The order of the two people hardly changes this preference: it changes the log-odds by less than a "
        "quarter of their size (number: change of the log-odds).",
        value=first.roles,
        interval=first.roles_interval,
        holds=max(map(abs, first.roles_interval)) < abs(first.value) / 4,
        against=first.value,
        control="log-odds",
    )
    run.table(
        "Results for several random pairings of the same occupations",
        [
            "pairing",
            'log-odds of "she" against "he"',
            "95 % low",
            "95 % high",
            "change if the people swap places",
            "largest effect of the pronoun on a head",
            "the same with pronouns assigned at random",
        ],
        [
            [i + 1, p.value, *p.interval, p.roles, max(abs(h.pronoun.value) for h in one.heads), one.control]
            for i, (one, p) in enumerate(zip(found, results, strict=True))
        ],
    )


def _row(head: HeadBias) -> list[object]:
    place, pronoun = head.roles, head.pronoun
    name = f"{head.layer}.{head.head}"
    return [name, head.mass, head.share, place.value, *place.interval, pronoun.value, *pronoun.interval]
