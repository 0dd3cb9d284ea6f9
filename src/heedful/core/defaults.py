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


MIN_TEXTS = 10
