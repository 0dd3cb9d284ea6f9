"""The operator "swap": a removed unit is replaced by words drawn from a list, so that the text stays a text.

The list is that of the nearest `swap_words` block around the call, else WORDS. What stands for a unit is a
function of the text, the list and the number of the unit: all rows of a text agree about it, and so does the
next run. A word that is in the list twice is drawn twice as often.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from string import punctuation

import numpy as np

from heedful.modalities.text_spans import split_words

# Common English words of all kinds; none that praises or blames, none that denies.
_LIST = """
    the a an this that these those each every some any both several another other such same own
    I you he she it we they me him us them my your his its our their who which what someone something
    and or but if while because though since until when where as than so then also too again still
    of in on at by for with from to into about over under between through during before after around near
    is are was were be been has have had do does did can could may might will would should must
    goes went comes came takes took gives gave makes made put gets got sees saw looks looked finds found
    keep kept leave turn turned moves moved walk walked sits sat stand stood holds held brings brought
    carry carried opens opened closes closed reads write wrote says said tells told ask asked calls used
    one two three four five six seven ten first second third next last few many more most much
    now today yesterday tomorrow soon later often sometimes usually here there away back up down out
    together almost quite rather perhaps just only even once twice
    time day week month year morning evening night hour minute place house home room door window wall
    floor table chair street road town city village river lake sea field garden tree leaf grass
    stone water air light sound colour paper book page letter word name number line picture story question
    answer part side end top middle hand head eye face foot arm person people man woman child
    friend teacher student worker family group music song game ball car bus train boat
    bag box cup bottle bread milk tea coffee dinner shirt shoe hat coat clock phone key coin
    large small long short wide narrow round square red blue green yellow brown black
    white wooden common usual local general public whole half single daily
"""
WORDS = tuple(_LIST.split())

_words: ContextVar[tuple[str, ...]] = ContextVar("swap words", default=WORDS)


@contextmanager
def swap_words(words: Iterable[str]) -> Iterator[None]:
    """Inside the block words are drawn from these; from WORDS if there are none."""
    given = tuple(word for word in (word.strip() for word in words) if word)
    token = _words.set(given or WORDS)
    try:
        yield
    finally:
        _words.reset(token)


def current_words() -> tuple[str, ...]:
    """The list that words are drawn from here."""
    return _words.get()


def replacements(
    text: str, originals: Sequence[str], seed: int = 0, usable: Callable[[str], bool] | None = None
) -> list[str]:
    """What stands for each unit of a text: as many words as it has, at least one, none of them its own.

    A word that does not fit (it is the unit's own, or not `usable`) gives way to the next one of the list.
    Where no word fits, a usable one is taken, else any.
    """
    words = current_words()
    own = hashlib.blake2b(f"{seed}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16)
    return [
        " ".join(
            _drawn(words, _place(own, unit, part, len(words)), original, usable)
            for part, original in enumerate(text_of_unit.split() or [""])
        )
        for unit, text_of_unit in enumerate(originals)
    ]


def _place(text: hashlib.blake2b, unit: int, part: int, count: int) -> int:
    """Where in the list the draw begins: the same in every process, which Python's own hash is not."""
    own = text.copy()
    own.update(f"\0{unit}\0{part}".encode())
    return int.from_bytes(own.digest(), "big") % count


def _drawn(words: Sequence[str], at: int, original: str, usable: Callable[[str], bool] | None) -> str:
    """The first word that fits, from place `at` on and around."""
    known = _bare(original)
    fallback = None
    for step in range(len(words)):
        word = words[(at + step) % len(words)]
        if usable is not None and not usable(word):
            continue
        if _bare(word) != known:
            return word
        fallback = fallback or word
    return fallback or words[at]


def _bare(word: str) -> str:
    return word.strip(punctuation).casefold() or word


def words_of(texts: Iterable[str], most: int = 500, seed: int = 0) -> tuple[str, ...]:
    """Words of texts as often as they stand there: at most so many, drawn from all without replacement."""
    spans = ((text, span) for text in texts for span in split_words(text))
    results = [text[start:end] for text, (start, end) in spans if any(map(str.isalpha, text[start:end]))]
    rng = np.random.default_rng(seed)
    return tuple(results[i] for i in rng.permutation(len(results))[:most])
