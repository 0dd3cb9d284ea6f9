"""Two texts and chats: asked, tried, stored and opened again, held to the library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from tests.server.chromium import visits
from tests.server.serving import finished, listening

import heedful
from heedful.comparisons.result import Comparison
from heedful.modalities.text_windows import select
from heedful.server import app, input_parts

PAIR = ("the cat sat on the mat", "a dog ran")
CHAT = [{"role": "system", "content": "the cat sat."}, {"role": "user", "content": " a dog ran to the cat "}]


@pytest.fixture(scope="module")
def two(shared: Callable[[str], Any]) -> Any:
    """A tiny classifier that reads pairs, with segment embeddings."""
    return shared("bert").model


@pytest.fixture(scope="module")
def talker(shared: Callable[[str], Any]) -> Any:
    """A tiny language model with a chat template."""
    return shared("llama").model


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory, two: Any, talker: Any) -> Iterator[app.ServerState]:
    found = app.load_state([two, talker], app.ServerConfig(runs=tmp_path_factory.mktemp("runs")))
    yield found
    found.close()
    found.jobs.join()


@pytest.fixture(scope="module")
def place(rooms: app.ServerState) -> Iterator[str]:
    with listening(rooms, app.ServerConfig(runs=rooms.runs.root)) as found:
        yield found


@pytest.fixture
def asker(place: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=place, timeout=120) as found:
        yield found


def pair(two: Any) -> dict[str, Any]:
    return {"model": two.name, "text": PAIR[0], "pair": PAIR[1]}


def chat(talker: Any) -> dict[str, Any]:
    return {"model": talker.name, "turns": CHAT}


def test_who_reads_what(asker: httpx.Client, two: Any, talker: Any) -> None:
    first, second = asker.get("/api/here").json()["models"]
    assert (first["pairs"], first["chat"]) == (True, False)
    assert (second["pairs"], second["chat"]) == (False, True)


def test_a_pair_is_explained_as_the_library_does(asker: httpx.Client, two: Any) -> None:
    from heedful.reports import comparison_parts, html

    found = asker.post("/api/look", json=pair(two) | {"methods": ["occlusion"]}).json()
    own = heedful.explain(two, PAIR, ["occlusion"])
    assert found["text"] == "\n".join(PAIR)
    assert found["html"]["methods"] == html.nodes_html([comparison_parts.methods(own)], 2)
    alone = asker.post(
        "/api/look", json={"model": two.name, "text": PAIR[0], "methods": ["occlusion"]}
    ).json()
    assert alone["html"]["methods"] != found["html"]["methods"]


def test_a_chat_is_explained_as_the_library_does(asker: httpx.Client, talker: Any) -> None:
    from heedful.reports import comparison_parts, html

    found = asker.post("/api/look", json=chat(talker) | {"methods": ["grad-x-input"]}).json()
    own = heedful.explain(talker, CHAT, ["grad-x-input"])
    assert "<|im_start|>" in found["text"]
    assert found["html"]["methods"] == html.nodes_html([comparison_parts.methods(own)], 2)
    assert [word["text"] for word in found["words"]] == [word.text for word in own["grad-x-input"].words()]


@pytest.mark.parametrize("gone", [1, 7])
def test_a_word_of_either_text_is_taken_out(asker: httpx.Client, two: Any, gone: int) -> None:
    """By hand: the tokens without those of the word, each with its own segment."""
    label = two.labels[0]
    ask = pair(two) | {"edits": [{"word": gone}], "operator": "delete", "target": label}
    found = asker.post("/api/try", json=ask).json()
    x = two.encode(PAIR)
    less = two.logits(select(x, [t for t, word in enumerate(x.words) if word != gone]))
    assert found["after"] == pytest.approx(float(less[0]), abs=1e-5)
    shares = {one["label"]: one["share"] for one in found["prediction"]}
    assert shares[label] == pytest.approx(float(less.softmax(-1)[0]), abs=1e-5)


def test_words_of_both_texts_are_replaced(asker: httpx.Client, two: Any) -> None:
    edits = [{"word": 1, "by": "dog"}, {"word": 7, "by": "low house"}, {"word": 0, "operator": "delete"}]
    found = asker.post("/api/try", json=pair(two) | {"edits": edits, "target": two.labels[0]}).json()
    x = two.encode(("the dog sat on the mat", "a low house ran"))
    less = two.logits(select(x, [t for t, word in enumerate(x.words) if word != 0]))
    assert found["after"] == pytest.approx(float(less[0]), abs=1e-5)
    assert found["text"] == "dog sat on the mat\na low house ran"


def test_a_word_of_a_chat_is_replaced(asker: httpx.Client, talker: Any) -> None:
    """In its turn, whose spaces around the template may keep or not."""
    x = talker.encode(CHAT)
    words = [x.word_text(word) for word in range(len(x.word_spans))]
    at = words.index("ran")
    ask = chat(talker) | {"edits": [{"word": at, "by": "sat"}]}
    found = asker.post("/api/try", json=ask).json()
    changed = [CHAT[0], {"role": "user", "content": " a dog sat to the cat "}]
    other = talker.encode(changed)
    value = talker.values(other, talker.target(x), np.ones((1, len(other.units("word"))), bool))
    assert found["text"] == other.text
    assert found["after"] == pytest.approx(float(value[0]), abs=1e-5)


def test_places_of_words_in_their_parts(talker: Any) -> None:
    x = talker.encode(CHAT)
    contents = [turn["content"] for turn in CHAT]
    for word, (part, start, end) in enumerate(input_parts.placed(x, contents)):
        assert contents[part][start:end] == x.word_text(word)


@pytest.mark.parametrize("kind", ["pair", "chat"])
def test_runs_open_in_the_page_again(
    asker: httpx.Client, rooms: app.ServerState, two: Any, talker: Any, kind: str
) -> None:
    ask = pair(two) if kind == "pair" else chat(talker)
    begun = asker.post("/api/jobs/explain", json=ask | {"methods": ["grad-l2"], "test": False}).json()
    job = finished(asker, begun)
    assert job["state"] == "done", job["error"]
    stored = Comparison.load(rooms.runs.root / job["id"])
    own = heedful.explain(two if kind == "pair" else talker, PAIR if kind == "pair" else CHAT, ["grad-l2"])
    np.testing.assert_allclose(stored["grad-l2"].scores, own["grad-l2"].scores, atol=1e-5)
    again = asker.get(f"/api/runs/{job['run']}").json()["ask"]
    assert asker.post("/api/look", json={k: v for k, v in again.items() if v is not None}).status_code == 200
    assert {name: again[name] for name in ask if name != "model"} == {
        name: value for name, value in ask.items() if name != "model"
    }


def test_a_pair_has_its_heads(asker: httpx.Client, two: Any) -> None:
    job = finished(asker, asker.post("/api/jobs/attention", json=pair(two)).json())
    assert job["state"] == "done", job["error"]
    own = heedful.attention(two, PAIR)
    side = len(own.stacks[0].keys)
    assert job["result"]["data"]["levels"][0]["stacks"][0]["shape"][2:] == [side, side]


@pytest.mark.parametrize(
    ("ask", "status"),
    [
        ({"text": "a", "turns": CHAT}, 422),
        ({"pair": "b", "turns": CHAT}, 422),
        ({"turns": []}, 422),
        ({"turns": [{"role": "robot", "content": "x"}]}, 422),
        ({"turns": [{"role": "user", "content": "x" * 15_000}] * 2}, 422),
        ({"turns": CHAT}, 400),  # this model has no template
        ({"text": "a", "pair": ""}, 400),
    ],
)
def test_mistakes_are_told(asker: httpx.Client, two: Any, ask: dict[str, Any], status: int) -> None:
    answer = asker.post("/api/look", json={"model": two.name} | ask)
    assert answer.status_code == status
    assert answer.json()["error"]


@pytest.mark.browser
def test_in_the_page(place: str, two: Any, talker: Any, tmp_path: Path) -> None:
    with visits(place) as visit:
        page = visit(f"#text={quote(PAIR[0])}&model={quote(two.name)}&tab=try")
        page.see("#verdict .text")
        page.tab.get_by_role("button", name="Add a second text").click()
        page.see("#answer", "Type a text")  # a pair needs both
        page.tab.get_by_label("Second text", exact=True).fill(PAIR[1])
        page.see("#try .word:has-text('dog')")
        page.tab.locator("#try .word", has_text="dog").click()
        page.tab.locator("#try .tools button", has_text="Delete").click()
        page.see("#try .version .said", "a ran")
        page.tab.reload()
        page.see("#try .version .said", "a ran")
        assert page.tab.get_by_label("Second text", exact=True).input_value() == PAIR[1]
        assert page.serious() == []
        page.tab.get_by_role("button", name="Remove the second text").click()
        page.gone("#try .word:has-text('dog')")

        page = visit(f"#text=a+dog+ran&model={quote(talker.name)}&tab=try")
        page.see("#verdict .text")
        page.tab.get_by_role("button", name="Write it as a chat").click()
        page.see("#try .words", "im_start")
        page.tab.get_by_role("button", name="Add a turn").click()
        page.tab.get_by_label("Turn 2", exact=True).fill("the cat sat")
        page.see("#try .word:has-text('sat')")
        with page.tab.expect_response("**/api/look"):
            page.tab.get_by_label("Role of turn 2").select_option("user")
        page.gone("body.asking")  # what is asked anew is paler
        page.tab.wait_for_timeout(400)  # as long as colours take to come back
        page.tab.screenshot(path=tmp_path / "chat.png", full_page=True)
        assert page.serious() == []
        assert page.tab.get_by_role("button", name="Copy as CLI").count() == 0
        page.tab.set_viewport_size({"width": 390, "height": 800})
        assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390
        page.tab.screenshot(path=tmp_path / "narrow.png")
        page.tab.reload()
        page.see("#try .word:has-text('sat')")
        assert page.tab.get_by_label("Role of turn 2").input_value() == "user"
        page.tab.get_by_role("button", name="Back to plain text").click()
        page.see("#text-input")
        assert page.tab.input_value("#text-input") == "the cat sat"
