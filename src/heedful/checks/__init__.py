"""Conventions as executable checks, for our explainers and for yours:

    from heedful.checks import check_explainer
    check_explainer("my-method", heedful.load("zoo:sentiment"))

and for metrics: `check_metric("my-metric")` (heedful.checks.metrics).

Each check is a function that raises AssertionError with a sentence. What holds for every explainer (EVERY) is
checked on the model given; the properties of a method (see `registry.explainer`) on small models whose right
answer is known (heedful.checks.known_models), and on the model given where the property holds for any model.
"""

from __future__ import annotations

from heedful.checks.conventions import explained
from heedful.checks.explainers import ANY, EVERY, KNOWN, check_explainer, check_on, check_properties
from heedful.checks.known_models import linear_model
from heedful.checks.known_pictures import conv_model, patch_model
from heedful.checks.metrics import check_metric

__all__ = [
    "ANY",
    "EVERY",
    "KNOWN",
    "check_explainer",
    "check_metric",
    "check_on",
    "check_properties",
    "conv_model",
    "explained",
    "linear_model",
    "patch_model",
]
