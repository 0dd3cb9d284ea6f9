"""Choices that several places share."""

from __future__ import annotations

CONTROL = "random"  # the method that knows nothing, with which the others are compared
# methods that do not look at the model: what they reach can be had without it, so none is ever recommended
MIDDLE = "centre"  # the control of metrics that ask where a thing is
CONTROLS = (CONTROL, "edges", "smooth-random", MIDDLE)
# controls that every audit runs where the model's inputs have them, whatever methods were named
AUDIT_CONTROLS = ("edges", "smooth-random")
EFFECTS_ONLY = "effects_only"  # a setting of an explanation: nobody asked for a method, only for effects


# What runs when no method is named: one of each kind, few enough to read together; --method all runs more.
DEFAULT_METHODS = (
    "grad-l2",
    "grad-x-input",
    "integrated-gradients",
    "attention-avg",
    "attention-rollout",
    "occlusion",
    "lime",
)


ALL = "all"  # every method that the model supports, expensive ones left out
MIN_TEXTS = 10  # below which a verdict claims nothing
MIN_COMPARED_TEXTS = 20  # below which nothing is claimed between methods

# A quick audit, which is the default: the first QUICK_METHOD_COUNT of these that the model supports. They are
# cheap and of different kinds: leave one out, gradients, attention (what people look at first), a local fit.
QUICK_METHODS = (
    "occlusion",
    "integrated-gradients",
    "attention-avg",
    "lime",
    "kernel-shap",
    "grad-x-input",
    "attention-rollout",
)
QUICK_METHOD_COUNT = 4
QUICK_METRICS = ("comprehensiveness", "sufficiency")  # one per family of the verdict, the cheapest of each

# A full audit: every method that is not expensive, these metrics, and a search for the best order of words.
FULL_METRICS = ("comprehensiveness", "sufficiency", "aopc", "insertion", "monotonicity", "infidelity")
ENGINES = ("local", "ray")

HOST = "127.0.0.1"
SERVED_MODELS = ("zoo:sentiment", "zoo:lm")
PORT = 8765  # of heedful serve
STUDY_PORT = 8766  # of heedful lab study
