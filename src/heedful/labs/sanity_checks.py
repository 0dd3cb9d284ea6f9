"""Which explanations survive the randomisation of weights? One that does shows the text, not the model.

Layers are drawn anew from the top down, each with its own mean and spread, and the same texts are explained
after each (cascading randomisation). What is left of an explanation is its rank correlation with that of the
trained model.

ReLU network     two convolutions and two dense layers, trained here: guided backpropagation, gradient x
                 input, integrated gradients
zoo:sentiment    a BERT of four layers: attention, rollout, gradient x input

Occlusion asks the function itself. Where the function keeps its order, an explanation may keep its own;
suspect is one that stays where occlusion has gone, or that leaves where occlusion stays.

Adebayo et al., Sanity Checks for Saliency Maps, NeurIPS 2018; Springenberg et al. 2015 (guided
backpropagation).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import heedful
from heedful.core.arrays import Floats
from heedful.core.charts import Curve, Curves
from heedful.core.model import Model
from heedful.labs.base.claims import claim_mean
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.data.reviews import reviews
from heedful.labs.models.relu_net import relu_net
from heedful.metrics.sanity import correlation, layers_of, randomise
from heedful.models.load import load_token_model
from heedful.models.model_copies import copied
from heedful.stats.intervals import SIGNED

OF_RELU = ("guided-backprop", "grad-x-input", "integrated-gradients", "occlusion")
OF_BERT = ("attention-avg", "attention-rollout", "grad-x-input", "occlusion")
NETWORKS = {"relu": "ReLU network", "bert": "BERT"}


@lab(
    "sanity-checks",
    title="Which saliency maps survive random weights",
    minutes=2.0,
    cite="Adebayo et al. 2018",
)
def sanity_checks(run: LabRun) -> None:
    count, draws, steps = (4, 7, 150) if run.fast else (8, 10, 800)
    rng = np.random.default_rng(run.seed)
    train, kept = reviews("train"), reviews("held")
    texts = [kept[i].text for i in rng.permutation(len(kept))[:count]]
    sentences = [train[i] for i in rng.permutation(len(train))[: 2000 if run.fast else len(train)]]
    words = load_token_model("zoo:one-layer")  # for its tokenizer
    net = relu_net(sentences, words, steps, run.seed)
    right = [net.target(net.encode(each.text)).index == each.label for each in kept[:: len(kept) // 200]]
    run.say(
        "The layers of a trained model get random weights, one after another from the top. After each "
        "layer, the same texts are explained again. How similar is the explanation to that of the trained "
        f"model? A ReLU network is trained on {len(sentences)} sentences and classifies "
        f"{100 * np.mean(right):.0f} % of the held-out sentences correctly. {count} texts are explained, "
        f"with {draws} draws of random weights. The second model is the BERT zoo:sentiment."
    )
    methods = cheap(OF_RELU, "integrated-gradients") if run.fast else OF_RELU
    of_relu(run, methods, *cascade(run, net, texts, methods, draws))
    bert, methods = heedful.load("zoo:sentiment"), cheap(OF_BERT, "occlusion") if run.fast else OF_BERT
    some, depth = (texts[:3], 3) if run.fast else (texts, None)
    of_bert(run, methods, *cascade(run, bert, some, methods, 7, depth=depth))


def cheap(methods: Sequence[str], dearest: str) -> tuple[str, ...]:
    """A fast run does without the method that takes longest."""
    return tuple(name for name in methods if name != dearest)


def cascade(
    run: LabRun,
    model: Model,
    texts: Sequence[str],
    methods: Sequence[str],
    draws: int,
    depth: int | None = None,
) -> tuple[list[str], Floats]:
    """Layers from the top, `depth` of them, and (layers, methods, draws) what is left once each is random:
    the correlation of signed scores with those of the trained model, mean over texts."""
    trained = [scores(model, text, methods, None) for text in texts]
    names: list[str] = []
    left = []
    for draw in range(draws):
        copy, rng = copied(model), torch.Generator().manual_seed(1000 * run.seed + draw)
        layers = list(reversed(layers_of(copy.module).items()))[:depth]
        names = [name for name, _ in layers]
        for number, (_, tensors) in enumerate(layers):
            run.progress(draw * len(layers) + number, draws * len(layers), "randomising")
            randomise(tensors, rng)
            door = copy.model()
            results = [
                scores(door, text, methods, target)[1]
                for text, (target, _) in zip(texts, trained, strict=True)
            ]
            left.append(
                [
                    np.mean(
                        [correlation(old[m], new[m]) for (_, old), new in zip(trained, results, strict=True)]
                    )
                    for m in range(len(methods))
                ]
            )
    return names, np.array(left).reshape(draws, len(names), len(methods)).transpose(1, 2, 0)


def scores(model: Model, text: str, methods: Sequence[str], target: Any) -> tuple[Any, list[Floats]]:
    """The class that is explained, and each method's scores by word."""
    comparison = heedful.explain(model, text, methods, target=target, evidence=False, keep_partial=False)
    return comparison[methods[0]].target.index, [comparison[name].unit_scores() for name in methods]


def drawn(run: LabRun, name: str, layers: list[str], methods: Sequence[str], left: Floats) -> None:
    """One line per method, as more and more layers are random."""
    size = np.abs(left).mean(2)  # (layers, methods)
    start = [(0.0, 1.0)]
    run.figure(
        name,
        Curves(
            [
                Curve(m, start + [(k + 1.0, float(v)) for k, v in enumerate(size[:, j])])
                for j, m in enumerate(methods)
            ],
            "number of random layers, from the top",
            "|rank correlation|",
            "Similarity to the explanation of the trained model",
        ),
        f"{NETWORKS[name]}: absolute rank correlation with the explanation of the trained model, mean over "
        f"draws of random weights. From left to right, one more layer is random: {', '.join(layers)}.",
    )
    rows = [[layer, *values] for layer, values in zip(layers, left.mean(2).tolist(), strict=True)]
    title = f"{NETWORKS[name]}: mean rank correlation of signed scores with those of the trained model"
    run.table(title, ["random from the top down to", *methods], rows)


def of_relu(run: LabRun, methods: Sequence[str], layers: list[str], left: Floats) -> None:
    """Once all but the first convolution and the embeddings are random."""
    drawn(run, "relu", layers, methods, left)
    at = left[layers.index("second")]  # (methods, draws)
    by = dict(zip(methods, at, strict=True))
    claim_mean(
        run,
        "Guided backpropagation survives random weights: with three of five layers random, its scores "
        "still have a correlation above 0.2 with those of the trained model.",
        by["guided-backprop"],
        above=0.2,
        limits=SIGNED,
        against=float(by["occlusion"].mean()),
        control="correlation for occlusion",
    )
    claim_mean(
        run,
        "With the same random layers, the correlation is lower for gradient x input than for guided "
        "backpropagation (value: difference of the correlations).",
        by["guided-backprop"] - by["grad-x-input"],
        above=0.0,
        limits=(-2.0, 2.0),
        against=float(by["grad-x-input"].mean()),
        control="correlation for gradient x input",
    )
    last = dict(zip(methods, left[-1], strict=True))["guided-backprop"]
    claim_mean(
        run,
        "Guided backpropagation does not survive everything: if the first convolution and the embeddings "
        "are also random, its correlation is lower by more than 0.2 (value: difference of the "
        "correlations).",
        by["guided-backprop"] - last,
        above=0.2,
        limits=(-2.0, 2.0),
        against=float(last.mean()),
        control="its correlation with every layer random",
    )


def of_bert(run: LabRun, methods: Sequence[str], layers: list[str], left: Floats) -> None:
    """A random top layer of attention, over lower layers that are trained."""
    drawn(run, "bert", layers, methods, left)
    top = next(k for k, name in enumerate(layers) if name.endswith("layer.3"))
    by = dict(zip(methods, left[top], strict=True))
    claim_mean(
        run,
        "In BERT, a random last layer changes attention more than attention rollout: the correlation with "
        "the trained model is lower for attention, by more than 0.1 (value: difference of the correlations).",
        by["attention-rollout"] - by["attention-avg"],
        above=0.1,
        limits=(-2.0, 2.0),
        against=float(by["attention-avg"].mean()),
        control="correlation for attention",
    )
    run.say(
        "Rollout multiplies the attention maps of all layers, and the lower layers are still trained. So "
        "survival alone is neither good nor bad. An explanation should be compared with occlusion at the "
        "same stage, because occlusion depends only on the outputs of the model. With a random top layer "
        "all signs may flip; therefore the figures show absolute values."
    )
