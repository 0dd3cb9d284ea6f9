"""The masked-rows engine: what is removed, what is run, what is remembered."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from heedful.core import removal_record
from heedful.core.errors import HeedfulError
from heedful.core.input import Units
from heedful.core.removal_record import recording
from heedful.modalities import operators
from heedful.modalities.operators import OPERATORS, InputRow, RowRequest, Swaps, checked
from heedful.modalities.text import TextInput
from heedful.models.passes import BudgetSpentError, RowCache, chunks, evaluate


def removed(x: TextInput, stop: int, gone: set[int], operator: str, filler: int | None) -> InputRow:
    return OPERATORS[operator].remove(RowRequest(x, stop, gone, filler))


def swapped(x: TextInput, stop: int, gone: set[int], new: Swaps) -> InputRow:
    return OPERATORS["swap"].remove(RowRequest(x, stop, gone, swaps=new))


X = TextInput(
    "a b c",
    (1, 10, 11, 12, 2),
    ("[", "a", "b", "c", "]"),
    ((0, 0), (0, 1), (2, 3), (4, 5), (0, 0)),
    (True, False, False, False, True),
    (-1, 0, 1, 2, -1),
    ((0, 1), (2, 3), (4, 5)),
    (-1, 0, 0, 0, -1),
    type_ids=(0, 0, 0, 1, 1),
)


def sums(chunk: list[InputRow]) -> Any:
    return np.array([float(sum(row.ids)) for row in chunk])


def test_each_operator() -> None:
    types = X.type_ids
    assert removed(X, 5, {1, 3}, "delete", None) == InputRow((1, 11, 2), (0, 0, 1))
    assert removed(X, 5, {1, 3}, "mask", 99) == InputRow((1, 99, 11, 99, 2), types)
    assert removed(X, 5, {1, 3}, "unk", 98) == InputRow((1, 98, 11, 98, 2), types)
    assert removed(X, 5, {1, 3}, "pad", None) == InputRow(X.ids, types, hidden=(1, 3))
    assert removed(X, 5, {1, 3}, "mean", None) == InputRow(X.ids, types, blank=(1, 3))
    with pytest.raises(HeedfulError, match="no token for the operator 'mask'"):
        removed(X, 5, {1}, "mask", None)


def test_only_the_tokens_before_the_stop_are_read() -> None:
    assert removed(X, 3, {1, 3}, "delete", None) == InputRow((1, 11), (0, 0))
    assert removed(X, 3, {1, 3}, "mean", None) == InputRow((1, 10, 11), (0, 0, 0), blank=(1,))
    assert removed(X, 3, {2, 3}, "pad", None) == InputRow((1, 10), (0, 0))  # hidden at the end is not there
    assert removed(X, 3, {0, 1, 2}, "pad", None) == InputRow((), ())


def test_swapped_ids_take_the_place_and_the_type_of_the_first_token() -> None:
    assert swapped(X, 5, {1, 3}, {1: (70, 71), 3: (72,)}) == InputRow(
        (1, 70, 71, 11, 72, 2), (0, 0, 0, 0, 1, 1)
    )
    assert swapped(X, 5, {2, 3}, {2: (70,)}) == InputRow((1, 10, 70, 2), (0, 0, 0, 1)), "the unit's others go"
    assert swapped(X, 5, {3}, {1: (70,), 3: (72, 73)}) == InputRow((1, 10, 11, 72, 73, 2), (0, 0, 0, 1, 1, 1))
    assert swapped(X, 3, {2, 3}, {2: (70, 71)}) == InputRow((1, 10, 70, 71), (0, 0, 0, 0)), (
        "none after the stop"
    )
    assert swapped(X, 3, {3}, {3: (70,)}) == InputRow((1, 10, 11), (0, 0, 0))
    assert swapped(X, 5, set(), {1: (70,)}) == InputRow(X.ids, X.type_ids)


def test_what_is_removed_is_recorded() -> None:
    offered = ("mask", "delete", "swap")
    with recording() as found:
        checked(X, np.ones((2, 3), bool), "delete", "word", offered)
        assert found == set(), "nothing was removed"
        checked(X, [[True, False, True]], None, "word", offered)
        assert found == {"mask"}
        with pytest.raises(HeedfulError):
            checked(X, [[True, False, True]], "unk", "word", offered)
        checked(X, [[True, True, True], [False, True, True]], "swap", "word", offered)
    assert found == {"mask", "swap"}
    checked(X, [[True, False, True]], "delete", "word", offered)
    assert found == {"mask", "swap"}, "the block is over"


def test_a_recording_inside_another_tells_both() -> None:
    with recording() as outer:
        removal_record.record("mask")
        with recording() as inner:
            removal_record.record("delete")
        with suppress(KeyError), recording() as broken:
            removal_record.record("unk")
            raise KeyError
        removal_record.record("pad")
    assert inner == {"delete"}
    assert broken == {"unk"}
    assert outer == {"mask", "delete", "unk", "pad"}


def test_chunks_are_sorted_and_within_the_budget() -> None:
    rng = np.random.default_rng(0)
    rows = [InputRow(tuple(rng.integers(0, 9, int(n)).tolist())) for n in rng.integers(1, 30, 200)]
    parts = chunks(rows, 64)
    assert sorted(map(id, (row for part in parts for row in part))) == sorted(map(id, rows))
    assert all(len(part) == 1 or len(part) * max(map(len, part)) <= 64 for part in parts)
    lengths = [len(row) for part in parts for row in part]
    assert lengths == sorted(lengths, reverse=True)
    assert max(len(part) for part in chunks(rows, 64, most=3)) == 3


def test_duplicates_run_once_and_values_come_back_in_order() -> None:
    rows = [InputRow((i % 3,) * (i % 3 + 1)) for i in range(10)]
    ran: list[InputRow] = []
    values, fresh = evaluate(rows, lambda chunk: (ran.extend(chunk), sums(chunk))[1])
    assert values.tolist() == [float(sum(row.ids)) for row in rows]
    assert len(ran) == len(fresh) == 3


def test_rows_that_differ_in_anything_are_different() -> None:
    rows = [
        InputRow((1, 2)),
        InputRow((1, 2), hidden=(0,)),
        InputRow((1, 2), blank=(0,)),
        InputRow((1, 2), (0, 1)),
        InputRow((), text="a"),
        InputRow((), text="b"),
    ]
    _, fresh = evaluate(rows, lambda chunk: np.zeros(len(chunk)))
    assert fresh == rows


def test_memory_is_used_and_survives_an_interruption() -> None:
    memory = RowCache({InputRow((7,)): 123.0})
    rows = [InputRow((7,)), InputRow((1, 1)), InputRow((2, 2, 2))]

    def fails_late(chunk: list[InputRow]) -> Any:
        if chunk[0] == rows[1]:
            raise KeyboardInterrupt
        return sums(chunk)

    with pytest.raises(KeyboardInterrupt):
        evaluate(rows, fails_late, memory=memory, tokens=1)
    assert memory == {InputRow((7,)): 123.0, InputRow((2, 2, 2)): 6.0}
    values, fresh = evaluate(rows, sums, memory=memory)
    assert values.tolist() == [123.0, 2.0, 6.0]  # what is remembered is not asked again
    assert fresh == [rows[1]]


def test_a_budget_counts_fresh_rows_alone() -> None:
    memory = RowCache({InputRow((7,)): 1.0})
    memory.allowed = 1
    ran: list[InputRow] = []

    def run(chunk: list[InputRow]) -> Any:
        ran.extend(chunk)
        return sums(chunk)

    evaluate([InputRow((7,)), InputRow((7,)), InputRow((8,)), InputRow((8,))], run, memory=memory)
    assert ran == [InputRow((8,))]
    with pytest.raises(BudgetSpentError, match="1 model inputs left and this method needs 2"):
        evaluate([InputRow((1,)), InputRow((2,)), InputRow((7,))], run, memory=memory)
    assert ran == [InputRow((8,))]  # refused before any work


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_out_of_memory_halves_the_chunk(error: Exception) -> None:
    sizes = []

    def small_machine(chunk: list[InputRow]) -> Any:
        sizes.append(len(chunk))
        if len(chunk) > 3:
            raise error
        return sums(chunk)

    rows = [InputRow((i, i)) for i in range(10)]
    values, _ = evaluate(rows, small_machine)
    assert values.tolist() == [2.0 * i for i in range(10)]
    assert sizes == [10, 5, 2, 3, 5, 2, 3]


def test_other_errors_and_hopeless_memory_are_raised() -> None:
    def broken(chunk: list[InputRow]) -> Any:
        raise RuntimeError("shape mismatch")

    def full(chunk: list[InputRow]) -> Any:
        raise MemoryError

    with pytest.raises(RuntimeError, match="shape mismatch"):
        evaluate([InputRow((1,)), InputRow((2,))], broken)
    with pytest.raises(MemoryError):
        evaluate([InputRow((1,)), InputRow((2,))], full)


def test_progress_counts_to_the_number_of_fresh_rows() -> None:
    seen: list[tuple[int, int]] = []
    evaluate(
        [InputRow((i,)) for i in range(5)] * 2, sums, progress=lambda a, b: seen.append((a, b)), tokens=2
    )
    assert seen == [(2, 5), (4, 5), (5, 5)]


def test_spread_keeps_sums() -> None:
    owner = np.array([-1, 0, 0, -1, 1, -1])
    scores = Units("word", ("a", "b"), ((0, 1), (2, 3)), owner).spread(np.array([3.0, -1.0]))
    assert scores.tolist() == [0, 1.5, 1.5, 0, -1, 0]


def test_every_operator_is_described() -> None:
    assert set(operators.OPERATORS) == {"mask", "unk", "delete", "swap", "pad", "mean"}
