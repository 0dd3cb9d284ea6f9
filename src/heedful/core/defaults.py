"""Choices that several places share."""

from __future__ import annotations

CONTROL = "random"  # the method that knows nothing, beside which the others stand


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

AUDIT_METRICS = ("comprehensiveness", "sufficiency", "aopc", "insertion", "monotonicity", "infidelity")
ENGINES = ("local", "ray")

HOST = "127.0.0.1"
SERVED_MODELS = ("zoo:sentiment", "zoo:lm")
PORT = 8765  # of heedful serve
STUDY_PORT = 8766  # of heedful lab study
