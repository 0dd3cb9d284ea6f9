"""generation_config.json of a stranger: its ids of tokens are read if they can be, and nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.attack import hostile_models as hostile
from tests.models.test_hf import greedy_by_hand

import heedful
from heedful.core.errors import HeedfulError

SETTINGS: dict[str, dict[str, Any]] = {
    "words for numbers": {"eos_token_id": "a", "temperature": "x"},
    "a start in words": {"decoder_start_token_id": "a", "bos_token_id": []},
    "ids beyond the table": {"eos_token_id": [10**9, -4], "decoder_start_token_id": 10**9},
    "a cache": {"cache_implementation": "offloaded_static"},
    "strings to stop at": {"stop_strings": ["e"]},
    "tokens that may not be": {"suppress_tokens": list(range(20)), "begin_suppress_tokens": [5]},
    "a bias": {"sequence_bias": [[[7], 99.0]]},
    "guidance": {"guidance_scale": 3.0},
    "a watermark": {"watermarking_config": {"bias": 50.0, "greenlist_ratio": 0.25}},
    "no time": {"max_time": 0.0},
    "a forced end": {"forced_eos_token_id": 3},
    "a forced start that is no id": {"forced_bos_token_id": "a"},
    "a forced start beyond the table": {"forced_bos_token_id": 10**9},
    "samples": {"do_sample": True, "temperature": 9.0, "repetition_penalty": 5.0, "num_beams": 3},
    "more than tokens": {"return_dict_in_generate": True, "output_scores": True},
    "of its own": {"custom_generate": "someone/else", "max_length": "a"},
}
REFUSED: dict[str, dict[str, Any]] = {  # by transformers, when it loads the folder
    "padding in words": {"pad_token_id": "b"},
    "many answers": {"num_return_sequences": 3},
    "another model": {"assistant_model": "x"},
}


@pytest.fixture(scope="module", params=["llama", "t5"])
def sound(request: Any, tmp_path_factory: pytest.TempPathFactory, shared: Callable[[str], Any]) -> Any:
    folder = tmp_path_factory.mktemp("models") / request.param
    return hostile.sound(folder, shared(request.param)), shared(request.param)


@pytest.mark.parametrize("name", SETTINGS)
def test_greedy_is_the_argmax_whatever_the_folder_says(name: str, sound: Any, tmp_path: Path) -> None:
    folder, family = sound
    folder = Path(shutil.copytree(folder, tmp_path / "model"))
    (folder / "generation_config.json").write_text(json.dumps(SETTINGS[name]))
    model = heedful.load(str(folder))
    before = model.module.generation_config
    facts = dict(vars(before))
    x = model.encode("the cat sat")
    assert model.answer(x, 6) == greedy_by_hand(family.hf, list(x.ids), 6)
    assert model.module.generation_config is before
    assert vars(before) == facts


def test_ends_that_a_folder_names_are_kept(sound: Any, tmp_path: Path) -> None:
    folder, family = sound
    folder = Path(shutil.copytree(folder, tmp_path / "model"))
    x = family.x("the cat sat")
    written = greedy_by_hand(family.hf, list(x.ids), 6)
    end = written[len(written) // 2]
    ends = {"eos_token_id": [end, "a", 10**9]}
    (folder / "generation_config.json").write_text(json.dumps(ends))
    assert heedful.load(str(folder)).answer(x, 6) == written[: written.index(end) + 1]


def test_the_language_of_a_translator_is_kept(sound: Any, tmp_path: Path) -> None:
    """A forced first token names it; a model that goes on from a text has no such token."""
    folder, family = sound
    folder = Path(shutil.copytree(folder, tmp_path / "model"))
    x = family.x("the cat sat")
    by_hand = greedy_by_hand(family.hf, list(x.ids), 6)
    forced = next(i for i in range(4, 20) if i != by_hand[0])
    (folder / "generation_config.json").write_text(json.dumps({"forced_bos_token_id": forced}))
    written = heedful.load(str(folder)).answer(x, 6)
    if family.hf.config.is_encoder_decoder:
        assert written[0] == forced
    else:
        assert written == by_hand


@pytest.mark.parametrize("name", REFUSED)
def test_what_transformers_refuses_is_one_line(name: str, sound: Any, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(sound[0], tmp_path / "model"))
    (folder / "generation_config.json").write_text(json.dumps(REFUSED[name]))
    with pytest.raises(HeedfulError, match=r"^cannot load [^\n]*$"):
        heedful.load(str(folder))


@pytest.mark.parametrize("stated", ["a", [], [None], True, 1.5, {"a": 1}])
def test_ids_in_a_config_that_are_no_ids_are_not_used(stated: Any, fresh: Callable[[str], Any]) -> None:
    family = fresh("t5")
    backend = family.model.backend
    family.hf.generation_config.decoder_start_token_id = None
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        object.__setattr__(family.hf.config, name, stated)
    for name in ("pad", "eos", "bos", "decoder_start"):
        found = backend.special_id(name)
        assert found is None or type(found) is int
