"""Small language models of the labs: the cut vocabulary, and the loss by hand."""

from __future__ import annotations

import torch

from heedful.labs.data.speeches import speeches
from heedful.labs.models.small_lm import in_windows, losses, tokenizer, tokens
from heedful.models.zoo import resolve
from heedful.nn import GPT2, GPT2Config

TEXT = "My fellow Americans, naïve in 1984! " + next(iter(speeches("held").values()))[:2000]


def test_a_cut_vocabulary_reads_every_text() -> None:
    reader = tokenizer(512, 64)
    ids = reader(TEXT, verbose=False)["input_ids"]
    assert len(reader) == 512
    assert max(ids) < 512
    assert reader.decode(ids) == TEXT


def test_with_all_merges_it_is_the_tokenizer_of_the_zoo() -> None:
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(resolve.path("lm"))
    ours = tokenizer(len(theirs), 64)
    assert ours(TEXT, verbose=False)["input_ids"] == theirs(TEXT, verbose=False)["input_ids"]
    assert len(tokenizer(600, 64)(TEXT, verbose=False)["input_ids"]) > len(
        ours(TEXT, verbose=False)["input_ids"]
    )


def test_every_speech_is_opened() -> None:
    reader = tokenizer(300, 64)
    ids = tokens(reader, "held")
    assert int((ids == reader.eos_token_id).sum()) == len(speeches("held"))
    assert ids[0] == reader.eos_token_id
    assert in_windows(torch.arange(11), 4).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_losses_are_those_of_the_model_window_by_window() -> None:
    model = GPT2(GPT2Config(20, 8, 1, 2, 8), seed=1)
    rows = torch.randint(20, (130, 8), generator=torch.Generator().manual_seed(0))
    found = losses(model, rows)
    with torch.no_grad():
        expected = torch.stack([model.loss(row[None]) for row in rows])
    torch.testing.assert_close(torch.from_numpy(found).float(), expected)
