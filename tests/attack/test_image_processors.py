"""preprocessor_config.json of a stranger decides how large every picture becomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import transformers
from tests.models.test_load_picture_folders import save

import heedful
from heedful.core.errors import HeedfulError
from heedful.models import image_reader
from heedful.models.image_reader import MAX_SIZE, reader_of

HUGE: dict[str, tuple[str, dict[str, Any]]] = {
    "both sides": ("ViTImageProcessorPil", {"size": {"height": 30_000, "width": 30_000}}),
    "one side": ("ViTImageProcessorPil", {"size": {"height": 32, "width": MAX_SIZE + 1}}),
    "the short side": ("CLIPImageProcessorPil", {"size": {"shortest_edge": 30_000}}),
    "a crop": ("CLIPImageProcessorPil", {"crop_size": {"height": 10**9, "width": 1}}),
    "no number": ("CLIPImageProcessorPil", {"crop_size": {"height": float("nan"), "width": 1}}),
    "padding": ("ViTImageProcessorPil", {"do_pad": True, "pad_size": {"height": 10**6, "width": 10**6}}),
    "a share": ("ConvNextImageProcessorPil", {"size": {"shortest_edge": 224}, "crop_pct": 1e-4}),
    "a negative share": ("ConvNextImageProcessorPil", {"size": {"shortest_edge": 224}, "crop_pct": -1e-4}),
    "a divisor": ("GLPNImageProcessorPil", {"size_divisor": 10**6}),
}


@pytest.mark.parametrize("name", HUGE)
def test_a_processor_that_enlarges_without_limit_is_refused_before_it_runs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, settings = HUGE[name]
    processor = getattr(transformers, kind)(**settings)
    monkeypatch.setattr(image_reader, "processed", lambda *_: pytest.fail("processed"))
    with pytest.raises(HeedfulError, match="makes pictures too large"):
        reader_of(processor)


@pytest.mark.parametrize(
    "kind", ["ViTImageProcessorPil", "CLIPImageProcessorPil", "ConvNextImageProcessorPil"]
)
def test_ordinary_processors_pass(kind: str) -> None:
    assert reader_of(getattr(transformers, kind)()).size is not None


def test_a_folder_with_such_a_processor_is_one_line(tmp_path: Path) -> None:
    save("vit", tmp_path)
    path = tmp_path / "preprocessor_config.json"
    facts = json.loads(path.read_text()) | {"size": {"height": 30_000, "width": 30_000}}
    path.write_text(json.dumps(facts))
    with pytest.raises(HeedfulError, match="size is 30,000, and the limit is 4,096") as caught:
        heedful.load(str(tmp_path))
    assert "\n" not in str(caught.value)
