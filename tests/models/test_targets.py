"""What the user asks for, as a `Target`."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from heedful.core.errors import HeedfulError
from heedful.core.target import Target
from heedful.modalities.text import TextInput
from heedful.models import targets

LABELS = ["negative", "positive", "Mixed", "mixed"]
X = TextInput(
    "a b c", (4, 5, 6), ("a", "b", "c"), ((0, 1), (2, 3), (4, 5)), (False,) * 3, (0, 1, 2), (), (0,) * 3
)


def generator(spec: Any) -> Target:
    def show(ids: Any) -> str:
        return "".join(map(chr, ids))

    return targets.for_generator(
        spec, X, lambda text: [ord(c) for c in text], show, lambda _: 90, vocabulary=128
    )


def test_classifier_targets() -> None:
    assert targets.for_classifier(None, "classifier", LABELS, 1) == Target("class", 1, "positive")
    assert targets.for_classifier(0, "multi-label", LABELS, 1).kind == "label"
    assert targets.for_classifier(0, "regression", LABELS, 1).kind == "regression"
    both = targets.for_classifier({"contrast": "negative"}, "classifier", LABELS, 1)
    assert (both.index, both.contrast, both.name) == (1, 0, "positive rather than negative")


@pytest.mark.parametrize(
    "spec",
    [{"position": 1}, {"sequence": "a"}, {"lable": 1}, {"label": 0, "contrast": 0}, 1.5, True, [0], {1, 2}],
)
def test_wrong_classifier_specs_are_refused(spec: Any) -> None:
    with pytest.raises(HeedfulError):
        targets.for_classifier(spec, "classifier", LABELS, 0)


def test_generator_targets() -> None:
    assert generator(None).index == 90
    assert generator("A") == generator({"label": "A"}) == generator(65) == Target("token", 65, "A")
    assert generator({"position": 2}) == Target("token", 6, "\x06", position=2)
    assert generator({"position": 2, "label": "B"}).index == 66
    assert generator({"sequence": "AB"}) == generator({"sequence": [65, 66]})
    assert generator({"label": "A", "contrast": "B"}).name == "A rather than B"


@pytest.mark.parametrize(
    "spec",
    [
        *("AB", "", -1, 128),
        *({"sequence": ids} for ids in ("", [], [128], [0.5])),
        *({"position": k} for k in (0, 3, -1, 1.5, True)),
        *({"label": wish} for wish in (True, 1.0)),
        {"sequence": "A", "label": "B"},
        {"label": "A", "contrast": "A"},
        {"contrast": 128},
    ],
)
def test_wrong_generator_specs_are_refused(spec: Any) -> None:
    with pytest.raises(HeedfulError):
        generator(spec)


def test_scores() -> None:
    logits = torch.tensor([[1.0, 2.0, 4.0], [0.0, -1.0, 3.0]])
    assert Target("class", 2).score(logits).tolist() == [4.0, 3.0]
    assert Target("class", 2, contrast=1).score(logits).tolist() == [2.0, 4.0]
    assert Target("class", 1, contrast=0).score(logits).tolist() == [
        1.0,
        -1.0,
    ]  # index 0 is a contrast, not "none"
    steps = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    by_hand = [sum(steps[n, k].log_softmax(-1)[token] for k, token in enumerate((4, 0, 2))) for n in range(2)]
    torch.testing.assert_close(Target("sequence", sequence=(4, 0, 2)).score(steps), torch.stack(by_hand))


def test_large_token_ids_survive_half_precision() -> None:
    logits = torch.zeros(1, 1, 300, dtype=torch.bfloat16)
    logits[0, 0, 257] = 5.0  # bfloat16 cannot tell 257 from 256
    assert float(Target("sequence", sequence=(257,)).score(logits)[0]) > -4


def test_a_word_of_several_tokens_gets_its_leading_space_and_the_flag() -> None:
    known = {" people": [7]}

    def ids(text: str) -> list[int]:
        return known.get(text, [ord(c) for c in text])

    with pytest.raises(
        HeedfulError, match=r'Did you mean " people".*Or explain it whole: --sequence " people"'
    ):
        targets.token_index("people", ids)
    with pytest.raises(HeedfulError, match=r'not one. Explain it whole: --sequence " union"'):
        targets.token_index(" union", ids)
