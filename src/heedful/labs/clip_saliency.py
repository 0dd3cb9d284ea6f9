"""Two things in one picture, and the caption names one of them: does a map of CLIP show that one?

Demonstrations show one heat map for one caption, and nobody can tell whether it is right. Here the scenes are
drawn, so the truth is known. Two things differ in colour and in shape. Each is named in turn.

    share   positive scores on the named thing / those on both things. A map that does not read the caption
            has exactly 1/2, because it gives to the one what it takes from the other; so do the areas
    lift    share of all positive scores that is on the named thing / share of the area; chance 1

Occlusion is also asked for "this thing rather than the other one": the difference of two similarities.
Words are removed, too. The first version of this lab claimed that the words for the colour and the thing
matter more than the article. That failed: without the word for the thing the similarity rises. So this is
what is claimed now.

Radford et al. 2021 (CLIP); Zhao et al. 2024 (Grad-ECLIP); Zhang et al. 2018 (pointing game).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.charts import Forest, Line
from heedful.core.model import Model
from heedful.engine.question import run_explainer
from heedful.engine.session import Session
from heedful.labs.base.claims import claim_mean
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.data.scenes import Scene
from heedful.labs.data.shape_scenes import COLOURS, DIGIT_NAMES, SHAPES, Thing, shape_scenes
from heedful.metrics.pointing import painted
from heedful.models.load import load
from heedful.stats.intervals import mean_of

MODEL = "zoo:tiny-clip"
CONTROLS = ("edges", "smooth-random", "centre")
METHODS = ("occlusion", "grad-eclip", "chefer", "gradcam", "crop-similarity", *CONTROLS)
RATHER = "occlusion, rather than the other"
TOP = 10  # of all captions of one thing: where both true ones must be found
WORDS = ("article", "colour", "thing")
Mask = npt.NDArray[np.bool_]


@lab(
    "clip-saliency",
    title="Which thing in the picture does the caption name?",
    minutes=0.7,
    cite="Radford et al. 2021; Zhao et al. 2024",
)
def clip_saliency(run: LabRun) -> None:
    count = 14 if run.fast else 32
    model, captions = load(MODEL), [Thing(c, s).words() for c in COLOURS for s in (*SHAPES, *DIGIT_NAMES)]
    scenes = chosen(load(MODEL, labels=captions), shape_scenes(12 * count, count=2, seed=run.seed), count)
    run.say(
        f"{MODEL} compares a picture with a caption. {len(scenes)} scenes show two things each, with "
        "different colours and different shapes. The caption names one of them, then the other. Only "
        f"scenes are used in which both captions are among the {TOP} most similar of {len(captions)}. "
        "A map should lie on the thing that is named. A map that does not use the caption has a share of "
        "exactly 0.5, as edges have."
    )
    found = {name: np.empty((len(scenes), 2)) for name in (*METHODS, RATHER)}
    words = np.empty((len(scenes), len(WORDS)))
    for row, scene in enumerate(scenes):
        run.progress(row, len(scenes), "explaining")
        numbers, words[row] = measured(model, scene, METHODS)
        for name, both in numbers.items():
            found[name][row] = both
    shown(run, found, words)
    claims(run, found, words)


def chosen(captioner: Model, scenes: Sequence[Scene], count: int) -> list[Scene]:
    """The first scenes whose things have no word in common and are both recognised."""
    kept: list[Scene] = []
    for scene in scenes:
        if len(kept) < count and len(set(" ".join(scene.labels).split())) == 4:
            best = {text for text, _ in captioner.predict(captioner.encode(scene.picture), TOP)}
            if best >= set(named(scene)):
                kept.append(scene)
    return kept


def named(scene: Scene) -> list[str]:
    """A caption for each thing."""
    return [Thing(*label.split()).words() for label in scene.labels]


def measured(
    model: Model, scene: Scene, methods: Sequence[str]
) -> tuple[dict[str, tuple[float, float]], Floats]:
    """Share and lift of each method, and the scores of the words by occlusion: means over both captions."""
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in (*methods, RATHER)}
    texts, of_words = named(scene), np.zeros(len(WORDS))
    for at, text in enumerate(texts):
        x, session = model.encode({"picture": scene.picture, "text": text}), Session(model)
        masks = scene.masks[at], scene.masks[1 - at]
        for name in methods:
            item = run_explainer(name, session, x, model.target(x))
            results[name].append(on_thing(of_picture(item, masks[0].shape), *masks))
            if name == "occlusion":
                of_words += item.scores[-len(WORDS) :] / 2
        item = run_explainer("occlusion", session, x, model.target(x, {"contrast": texts[1 - at]}))
        results[RATHER].append(on_thing(of_picture(item, masks[0].shape), *masks))
    means = {name: np.mean(both, axis=0).tolist() for name, both in results.items()}
    return means, of_words


def of_picture(item: Attribution, shape: tuple[int, ...]) -> Floats:
    """(H, W); what stands behind the pixels are words."""
    return painted(item)[: shape[0] * shape[1]].reshape(shape)


def on_thing(scores: Floats, thing: Mask, other: Mask) -> tuple[float, float]:
    """Share and lift; a map without positive scores there says nothing, as chance does."""
    positive = scores.clip(min=0)
    own, rest, total = (float(each.sum()) for each in (positive[thing], positive[other], positive))
    return own / (own + rest) if own + rest else 0.5, own / total / thing.mean() if total else 1.0


def shown(run: LabRun, found: dict[str, Floats], words: Floats) -> None:
    """Numbers by method, the share with its interval, and the words."""
    rows, lines = [], []
    for name, numbers in found.items():
        share, (low, high) = mean_of(numbers[:, 0], (0.0, 1.0))
        rows.append([name, share, low, high, numbers[:, 1].mean()])
        lines.append(Line(name, share, low, high))
    run.table(
        "The thing that is named (chance: share 0.5, lift 1)",
        ["method", "share of the two things", "low", "high", "lift over its area"],
        rows,
    )
    run.figure(
        "share",
        Forest(
            lines,
            "share on the named thing, of both things",
            "Does a map follow the caption?",
            better="high",
            reference=0.5,
            reference_name="chance",
        ),
        "Positive scores on the thing that the caption names, as a share of those on both things, mean over "
        "scenes with 95 % intervals.",
    )
    each = [(name, *mean_of(words[:, k])) for k, name in enumerate(WORDS)]
    run.table(
        "Fall of the similarity when one word of the caption is removed",
        ["word", "fall", "low", "high"],
        [[name, value, *span] for name, value, span in each],
    )


def claims(run: LabRun, found: dict[str, Floats], words: Floats) -> None:
    for name in ("occlusion", "grad-eclip", "crop-similarity"):
        claim_mean(
            run,
            f"The map of {name} follows the caption: of its scores on the two things, more than half are on "
            "the one that is named.",
            found[name][:, 0],
            above=0.5,
            limits=(0.0, 1.0),
            against=float(found["edges"][:, 0].mean()),
            control="share for the edges of the picture",
        )
    claim_mean(
        run,
        "A map on the named thing proves little: the edges of the picture do not use the caption, and "
        "they lie on the named thing more than its area says (value: lift, chance 1).",
        found["edges"][:, 1],
        above=1.0,
        against=float(found["smooth-random"][:, 1].mean()),
        control="lift of smooth random scores",
    )
    claim_mean(
        run,
        "Without the word for the thing, the similarity of the caption and the picture of two things rises "
        "(value: fall of the similarity).",
        words[:, 2],
        below=0.0,
        against=float(words[:, 0].mean()),
        control="fall without the article",
    )
    if run.fast:  # the difference is small, and a fast run has few scenes
        return
    claim_mean(
        run,
        'The question "this thing rather than the other one" raises the share of occlusion (value: '
        "difference).",
        found[RATHER][:, 0] - found["occlusion"][:, 0],
        above=0.0,
        limits=(-1.0, 1.0),
        against=float(found["occlusion"][:, 0].mean()),
        control="share of occlusion for the similarity",
    )
