"""The server against its own OpenAPI schema: whatever fits it, or just does not, ends in no server error."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from heedful.server.routes import explain, generate, jobs, pictures
from heedful.server.security import PICTURES

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
TEXTS = ["not bad", "", " ", "a", "</script><b>", "שלום 👩‍👩‍👧 很好", "x " * 2000, "the cat sat " * 16]
WAYS = [*explain.router.routes, *jobs.router.routes, *generate.router.routes, *pictures.router.routes]
PLACES = sorted((route.path, method.lower()) for route in WAYS for method in route.methods)
ROUTES = [(path, method, GenerationMode.POSITIVE) for path, method in PLACES]
# of a route that takes nothing, or any bytes, nothing can be wrong
ROUTES += [(p, m, GenerationMode.NEGATIVE) for p, m in PLACES if (m == "post" and p != PICTURES) or "{" in p]
# the server's threads draw random numbers in this process, which Hypothesis takes for its strategies' doing
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")


@pytest.fixture(scope="module")
def schema(address: str) -> Any:
    return schemathesis.openapi.from_url(f"{address}/api/openapi.json")


def known(case: Any, tiny: str, number: int) -> None:
    """Half of the questions name a model that is there, and a text: else nothing would get past its name."""
    if isinstance(case.body, dict) and isinstance(case.body.get("model"), str) and number % 2:
        case.body["model"] = ("zoo:sentiment", tiny)[number // 2 % 2]
        if isinstance(case.body.get("text"), str) and number // 4 % 2:
            case.body["text"] = TEXTS[number // 8 % len(TEXTS)]


def asked(operation: Any, mode: GenerationMode, tiny: str, examples: int) -> None:
    numbers = count()

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        number = next(numbers)
        if mode is GenerationMode.POSITIVE:
            known(case, tiny, number)
        answer = case.call()
        case.validate_response(answer, checks=CHECKS)
        assert mode is GenerationMode.POSITIVE or 400 <= answer.status_code < 500

    ask()


@pytest.mark.parametrize(("path", "method", "mode"), ROUTES)
def test_no_server_error(schema: Any, tiny: Any, path: str, method: str, mode: GenerationMode) -> None:
    asked(schema[path][method], mode, tiny.name, 8)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method", "mode"), ROUTES)
def test_no_server_error_at_length(
    schema: Any, tiny: Any, path: str, method: str, mode: GenerationMode
) -> None:
    asked(schema[path][method], mode, tiny.name, 150)
