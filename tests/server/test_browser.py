"""The page in a real browser: every panel, by mouse and by keyboard, in both colours, narrow and zoomed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from tests.server.chromium import Visit, visits

from heedful.server import job_queue

pytestmark = pytest.mark.browser
TEXT = "the food is great but the service is not good"
EXPENSIVE = "kernel-shap"


@pytest.fixture(scope="module")
def visit(address: str) -> Iterator[Callable[..., Visit]]:
    with visits(address) as found:
        yield found


def opened(
    visit: Callable[..., Visit], text: str = TEXT, more: str = "", tab: str = "Methods", **options: Any
) -> Visit:
    """The page with a text in its address, at one of its tabs."""
    page = visit(f"#text={quote(text)}{more}", **options)
    page.see("#verdict .text")
    page.gone("#verdict .testing")  # a cheap test starts by itself
    turned(page, tab)
    return page


def turned(page: Visit, tab: str) -> None:
    page.tab.get_by_role("tab", name=tab).click()
    assert page.tab.locator("#view-explain > [role=tabpanel]:not([hidden])").count() == 1


TESTED = re.compile("Better than random here|ot proven better|random orders here")


def run_test(page: Visit) -> None:
    """The methods are tested by the button of the first screen."""
    page.tab.locator("#test").get_by_role("button", name=re.compile("^Test the methods on this text")).click()
    page.see("#verdict .sentences", TESTED)
    page.gone("#test .job")


def test_typing_asks_the_model(visit: Callable[..., Visit], model: Any) -> None:
    page = visit()
    page.see("#examples button")
    page.tab.fill("#text-input", TEXT)
    label, share = model.predict(model.encode(TEXT))[0]
    page.see("#answer .verdict", f"{label} {100 * share:.1f} %")
    assert page.tab.locator("#methods .method .name").count() >= 5
    page.tab.fill("#text-input", "")
    page.see("#answer", "Type a text")
    assert page.tab.locator("#methods .method").count() == 0


def test_an_example_is_one_click_away(visit: Callable[..., Visit]) -> None:
    page = visit()
    page.tab.locator("#examples button").first.click()
    page.see("#answer .verdict")
    assert page.tab.input_value("#text-input") == "the service is not bad"


@pytest.mark.usefixtures("little_time")
def test_an_expensive_method_waits_for_a_click_and_survives_a_reload(visit: Callable[..., Visit]) -> None:
    page = opened(visit, TEXT + " at all", f"&methods=grad-l2,{EXPENSIVE}")
    waiting = page.tab.locator(f"#methods [data-method={EXPENSIVE}]")
    assert re.search(r"model inputs", waiting.inner_text())
    page.tab.get_by_role("button", name=f"Run {EXPENSIVE}").click()
    page.see(f"#methods .method:not(.waits) .name:text-is('{EXPENSIVE}')")
    assert "job=" in page.tab.url
    page.tab.reload()
    page.see(f"#methods .method:not(.waits) .name:text-is('{EXPENSIVE}')")


def test_methods_are_tested(visit: Callable[..., Visit]) -> None:
    """By the page itself, where it is cheap: the text is shaded by what the test says, not by a habit."""
    page = opened(visit, tab="Evidence")
    page.see("#verdict .sentences", TESTED)
    page.see("#verdict .sentences", "easured by deleting")
    page.see("#verdict .heed", "Which method to use on this model")
    page.see("#evidence summary", "Do the methods agree?")
    page.see("#evidence table")
    assert page.tab.locator("#evidence svg.plot").count() >= 1
    assert page.tab.locator("#test button").count() == 0
    assert "job=" not in page.tab.url
    turned(page, "Methods")
    page.tab.locator("#methods summary", has_text="Claimed and measured").click()
    page.see("#methods .words table")
    turned(page, "How it was made")
    page.see("#made .code pre", "heedful explain")


@pytest.mark.usefixtures("costly_test")
def test_an_expensive_test_waits_for_a_click(visit: Callable[..., Visit]) -> None:
    page = opened(visit, TEXT + " today", tab="Evidence")
    page.see("#evidence button", "Test the methods on this text")
    page.see("#evidence summary", "Do the methods agree?")  # asked for when the tab is opened
    page.see("#verdict .sentences", "easured by deleting")
    assert "andom orders" not in page.tab.inner_text("#verdict")
    run_test(page)
    page.see("#evidence table")
    assert page.tab.locator("#test button").count() == 0


def test_a_test_of_an_older_text_is_dropped(visit: Callable[..., Visit]) -> None:
    """What was typed before is not shown, and its job is ended."""
    page = visit()
    ended: list[str] = []
    page.tab.on("request", lambda request: ended.append(request.url) if "/cancel" in request.url else None)
    held = held_back(page, "**/api/jobs/explain")
    page.tab.fill("#text-input", TEXT)
    page.see("#verdict .testing")
    page.tab.fill("#text-input", "what an awful, dull film with a good actor")
    page.see("#verdict .text", "awful")
    page.see("#verdict .testing")
    page.tab.wait_for_function("() => true")
    first, second = held
    with page.tab.expect_response("**/api/jobs/explain") as answered:
        first.continue_()
    page.tab.wait_for_function("() => document.querySelector('#verdict .testing')")  # still waits for its own
    second.continue_()
    page.see("#verdict .sentences", TESTED)
    assert "awful" in page.tab.inner_text("#verdict .text >> nth=0")
    assert any(answered.value.json()["id"] in url for url in ended)
    page.tab.fill("#text-input", "")
    page.gone("#verdict .sentences")


def test_a_result_of_the_page_is_saved_on_request(visit: Callable[..., Visit]) -> None:
    page = opened(visit, "a fine result to save")
    before = page.tab.inner_text("#verdict .sentences")
    page.tab.get_by_role("button", name="Save in Runs").click()
    page.see("#copies button", "Open in Runs")
    assert page.tab.inner_text("#verdict .sentences") == before
    assert "job=" in page.tab.url
    page.tab.get_by_role("button", name="Open in Runs").click()
    page.see(".run .parts", "a fine result to save")
    page.see(".runs-list tr", "a fine result to save")


def test_the_picker_shades_the_text_and_is_in_the_address(visit: Callable[..., Visit]) -> None:
    page = opened(visit)
    assert page.tab.locator("#verdict .choice > input").first.is_checked()  # occlusion
    page.tab.locator("#verdict .choice > label", has_text="grad-x-input").click()
    assert "shade=grad-x-input" in page.tab.url
    shown = "#verdict .choice > input:checked + label"
    page.tab.reload()
    page.see(shown, "grad-x-input")
    turned(page, "Try it")
    select = page.tab.locator("#try select").first
    assert select.input_value() == "grad-x-input"
    select.select_option("occlusion")
    page.see(shown, "occlusion")


def test_tabs_by_keyboard_and_by_address(visit: Callable[..., Visit], tiny: Any) -> None:
    page = opened(visit, "the cat sat on the mat", f"&model={quote(tiny.name)}")
    names = page.tab.get_by_role("tab").all_inner_texts()
    order = ["Methods", "Evidence", "Try it", "Generate", "Attention", "Features", "How it was made"]
    assert names == order
    for name in [*order[1:], order[0]]:
        page.tab.keyboard.press("ArrowRight")
        assert page.focus() == name
        assert page.tab.get_by_role("tab", selected=True).inner_text() == name
    page.tab.keyboard.press("End")
    assert page.focus() == "How it was made"
    page.tab.keyboard.press("ArrowLeft")
    page.tab.reload()
    page.see("#features:not([hidden])")
    other = opened(visit, TEXT, "&tab=features&model=zoo:sentiment")  # has no features: the first tab
    assert "Features" not in other.tab.get_by_role("tab").all_inner_texts()
    other.see("#methods .method")


def test_a_slow_model_gives_its_prediction_first(visit: Callable[..., Visit]) -> None:
    """An answer that took long is preceded, the next time, by the prediction alone."""
    page = visit()
    asked: list[Any] = []

    def late(route: Any) -> None:
        asked.append(route.request.post_data_json)
        if route.request.post_data_json["methods"] == []:
            route.continue_()
        elif len(asked) == 1:
            page.tab.wait_for_timeout(700)
            route.continue_()
        else:
            held.append(route)

    held: list[Any] = []
    page.tab.route("**/api/look", late)
    page.tab.fill("#text-input", TEXT)
    page.see("#methods .method")
    page.tab.fill("#text-input", "what an awful, dull film")
    page.see("#answer .verdict", "negative")  # before the methods
    assert held
    assert "awful" not in page.tab.inner_text("#verdict")
    held.pop().continue_()
    page.see("#verdict .text", "awful")


@pytest.fixture
def endless_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of this process's server wait to be cancelled: none ends before a slow browser has clicked."""
    report = job_queue.Job.report

    def until_cancelled(job: job_queue.Job, *words: Any, **more: Any) -> None:
        end = time.monotonic() + 300
        while not job.stop and time.monotonic() < end:
            time.sleep(0.02)
        report(job, *words, **more)

    monkeypatch.setattr(job_queue.Job, "report", until_cancelled)


@pytest.mark.usefixtures("little_time", "endless_jobs")
def test_a_job_is_cancelled(visit: Callable[..., Visit]) -> None:
    long = " ".join(f"word{n}" for n in range(80))
    page = opened(visit, long, f"&methods=grad-l2,{EXPENSIVE}")
    page.tab.get_by_role("button", name=f"Run {EXPENSIVE}").click()
    page.tab.locator("#methods .job button").click()
    page.see("#methods .job-end", "Cancelled")
    page.see(f"#methods [data-method={EXPENSIVE}] button")


def test_choosing_methods(visit: Callable[..., Visit]) -> None:
    page = opened(visit)
    page.tab.locator("details.choose summary").click()
    page.tab.locator(".pick", has_text="attention-max").locator("input").check()
    page.see("#methods .method .name:text-is('attention-max')")
    assert page.tab.locator("details.choose").get_attribute("open") is not None
    assert page.tab.locator(".pick", has_text="lime-exact").locator("input").is_disabled()
    page.tab.get_by_role("button", name="The usual ones").click()
    page.gone("#methods .method .name:text-is('attention-max')")


def test_trying_words(visit: Callable[..., Visit], client: Any) -> None:
    page = opened(visit, tab="Try it")
    page.tab.locator("#try .word", has_text="not").click()
    page.tab.locator("#try .tools button", has_text="Delete").click()
    ask = {"model": "zoo:sentiment", "text": TEXT, "edits": [{"word": 8}], "operator": "delete"}
    own = client.post("/api/try", json=ask).json()
    page.see("#try .compared .actual td", f"{own['after'] - own['before']:+.3f}".replace("-", "−"))
    page.tab.get_by_role("button", name="Keep as A").click()
    page.see("#try .version h3", "Version A")
    page.tab.locator("#try .word", has_text="good").click()
    page.tab.locator("#try input.new").fill("awful")
    page.tab.locator("#try .tools button", has_text="Replace").click()
    page.see("#try .version .said", "service is awful")
    page.see("#try .apart", "B minus A")
    page.tab.reload()  # all of it is in the address
    page.see("#try .version .said", "service is awful")
    page.see("#try .version h3", "Version A")
    page.tab.get_by_role("button", name="Put everything back").click()
    assert page.tab.locator("#try .word.changed").count() == 0


def test_every_word_keeps_its_way(visit: Callable[..., Visit], client: Any) -> None:
    """Masking one word leaves another deleted, in what is shown, in the number, and after a reload."""
    page = opened(visit, tab="Try it")
    page.tab.locator("#try .word", has_text="great").click()
    page.tab.locator("#try .tools button", has_text="Mask").click()
    page.see("#try .compared")
    page.gone("#try .compared td:has-text('claimed for')")  # as the methods did it
    page.tab.locator("#try .word", has_text="not").click()
    page.tab.locator("#try .tools button", has_text="Delete").click()
    page.see("#try .compared td", "claimed for mask, tried with delete and mask")
    edits = [{"word": 3, "operator": "mask"}, {"word": 8, "operator": "delete"}]
    own = client.post("/api/try", json={"model": "zoo:sentiment", "text": TEXT, "edits": edits}).json()
    told = f"{own['after'] - own['before']:+.3f}".replace("-", "−")
    page.see("#try .compared .actual td", told)
    page.tab.reload()
    page.see("#try .compared .actual td", told)
    page.see("#try .version .said", "the food is [mask] but the service is good")


def test_a_link_cannot_tell_a_result(visit: Callable[..., Visit], client: Any) -> None:
    """Version A is worked out from its words; what a link says came of it is not shown."""
    fake = (
        '{"text":"FAKE","prediction":[{"label":"FAKE","shown":"99 %","share":1}],"after":9,'
        '"target":"positive","explained":"FAKE","edits":{"0":{"by":"awful"}}}'
    )
    page = opened(visit, TEXT, f"&a={quote(fake)}", "Try it")
    page.see("#try .version .said", "awful")
    own = client.post(
        "/api/try", json={"model": "zoo:sentiment", "text": "FAKE", "edits": [{"word": 0, "by": "awful"}]}
    ).json()
    page.see("#try .version .bars", own["prediction"][0]["shown"])
    assert "FAKE" not in page.tab.inner_text("#try")
    for broken in (
        "{}",
        "[]",
        "null",
        "7",
        '{"text":"a"}',
        '{"text":1,"edits":{}}',
        '{"text":"a","edits":{"0":7}}',
    ):
        opened(visit, TEXT, f"&a={quote(broken)}", "Try it").see(
            "#try .word"
        )  # an error on the page fails the test


def test_a_link_to_a_model_that_is_not_here(visit: Callable[..., Visit]) -> None:
    page = opened(visit, TEXT, "&model=zoo:elsewhere&target=other", "Try it")
    page.see("#problem", "zoo:elsewhere is not served here: what you see is the answer of zoo:sentiment")
    page.tab.fill("#text-input", "another text")
    page.see("#try .word:has-text('another')")
    page.see("#problem", "zoo:elsewhere is not served here")
    assert not opened(visit, TEXT, "&model=zoo:sentiment").tab.locator("#problem").is_visible()


def held_back(page: Visit, place: str) -> list[Any]:
    """Questions to a place, which are sent on when the test says so."""
    held: list[Any] = []
    page.tab.route(place, lambda route: held.append(route))
    return held


def test_a_click_is_not_lost_to_an_answer(visit: Callable[..., Visit]) -> None:
    """What comes while a button is pressed is drawn when it is let go."""
    page = opened(visit, tab="Try it")
    held = held_back(page, "**/api/try")
    page.tab.locator("#try .word", has_text="not").click()
    page.tab.locator("#try .tools button", has_text="Delete").click()
    page.tab.locator("#try .word", has_text="good").hover()
    page.tab.mouse.down()
    with page.tab.expect_response("**/api/try"):
        held.pop().continue_()
    page.tab.wait_for_timeout(300)
    assert page.tab.locator("#try .compared").count() == 0
    page.tab.mouse.up()
    page.see("#try .tools .chosen", "good")
    page.see("#try .compared")


def test_what_is_put_back_stays_away(visit: Callable[..., Visit]) -> None:
    """The answer about a change that was put back meanwhile is not shown."""
    page = opened(visit, tab="Try it")
    held = held_back(page, "**/api/try")
    page.tab.locator("#try .word", has_text="not").click()
    page.tab.locator("#try .tools button", has_text="Delete").click()
    page.tab.locator("#try .tools button", has_text="Put back").click()
    held.pop().continue_()
    page.tab.wait_for_timeout(700)
    assert page.tab.locator("#try .compared, #try .word.changed").count() == 0


def test_a_reload_at_once_loses_nothing(visit: Callable[..., Visit]) -> None:
    """The address is written when something is done, not later."""
    page = opened(visit, tab="Try it")
    page.tab.evaluate(
        "document.querySelector('#try .word[data-word=\"8\"]').click();"
        "[...document.querySelectorAll('#try .tools button')].find(b => b.textContent === 'Delete').click();"
        "location.reload()"
    )
    page.tab.wait_for_load_state()
    page.see("#try .word.changed", "not")
    page.see("#try .compared")


def test_attention(visit: Callable[..., Visit]) -> None:
    page = opened(visit, tab="Attention")
    page.tab.get_by_role("button", name="Show every head").click()
    page.see("#attention .views canvas")
    page.tab.locator("#attention .tab", has_text="Matrix").click()
    page.see("#attention .matrix canvas")
    page.tab.wait_for_url("**atlas=view%3Dmatrix**")
    page.tab.reload()
    page.see("#attention .matrix canvas")
    page.tab.fill("#text-input", "another text altogether")
    page.see("#attention", "The text has changed")
    page.tab.get_by_role("button", name="Show every head").click()
    turned(page, "Methods")  # it is drawn when its tab is opened again
    page.tab.wait_for_timeout(1500)
    turned(page, "Attention")
    page.see("#attention .matrix canvas")
    assert page.tab.locator("#attention .matrix canvas").bounding_box()["width"] > 50


def test_features_and_steering(visit: Callable[..., Visit], tiny: Any) -> None:
    page = opened(visit, "the cat sat on the mat", f"&model={quote(tiny.name)}", "Features")
    page.tab.locator("#features .fires tbody button").first.click()
    page.see("#features .sides.next .bars")
    before = page.tab.locator("#features .sides.next > div").nth(1).inner_text()
    page.see("#features .limit p", "stops at")
    slider = page.tab.locator("#strength")
    most = float(slider.get_attribute("max"))
    assert 0 < most <= 10
    slider.focus()
    for _ in range(50):
        page.tab.keyboard.press("ArrowRight")
    page.see("#features .slide output", f"{most:g} ×")  # no further than where text breaks
    steered = "document.querySelectorAll('#features .sides.next > div')[1].innerText"
    page.tab.wait_for_function(f"before => {steered} !== before", arg=before)
    page.tab.get_by_role("button", name="Write 40 tokens").click()
    page.see("#features .written .said", "the cat sat on the mat")
    page.tab.get_by_role("button", name="What is it active on").click()
    page.see("#features .about-feature .example")


def test_features_have_names(
    visit: Callable[..., Visit], tiny: Any, server_state: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worked out by a job; in the list, in the heading, and known the next time."""
    from heedful.features.interpretation.rules import Rules, TokenRule

    found = server_state.dictionary(server_state.models.get(tiny.name))
    found.names.clear()
    explain = Rules.explain

    def explained(rules: Rules, examples: Any) -> Any:  # random directions follow no rule
        rule = TokenRule((("word", "cat"),), (1.0,))
        return replace(explain(rules, examples), text='the word "cat"', rule=rule)

    monkeypatch.setattr(Rules, "explain", explained)
    page = opened(visit, "a dog ran to the house", f"&model={quote(tiny.name)}", "Features")
    page.see("#features .name-cell", 'the word "cat"')
    page.gone("#features .naming .job")
    cells = page.tab.locator("#features .name-cell")
    shown = {int(cell.get_attribute("data-name")): cell.inner_text() for cell in cells.all()}
    assert shown == {number: found.names[number] or "–" for number in shown}
    number = next(number for number in shown if found.names[number])
    page.tab.get_by_role("button", name=f"Open feature {number}", exact=True).click()
    page.see("#features .feature-name", f'Feature {number}: the word "cat"')
    page.tab.reload()
    page.see("#features .feature-name", f'Feature {number}: the word "cat"')
    found.names.clear()


def test_generating_and_why(visit: Callable[..., Visit], tiny: Any) -> None:
    page = opened(visit, "the cat sat on the mat", f"&model={quote(tiny.name)}", "Generate")
    page.tab.locator("#generate input[type=number]").fill("5")
    page.tab.get_by_role("button", name="Continue the text").click()
    page.see("#generate table.matrix")
    assert page.tab.locator("#generate .token").count() == 5
    assert page.tab.locator("#generate .matrix tbody tr").count() == 5
    page.see("#generate .token small", re.compile(r"%"))
    page.see("#generate .generate-matrix .lead", "It is measured, not estimated")
    cells = page.tab.locator("#generate .matrix tbody").inner_html()
    page.tab.locator("#generate .generate-matrix select").select_option("random")
    page.see("#generate .generate-matrix .lead", "the control")
    assert page.tab.locator("#generate .matrix tbody").inner_html() != cells
    assert "matrix=random" in page.tab.url
    page.tab.locator("#generate .token").nth(2).click()
    page.see("#generate .why .sentences", "Measured by")
    page.see("#generate .why h3", "Token 3 of 5")
    assert page.tab.locator("#generate tr.chosen").count() == 1
    page.tab.reload()  # the address has the text, the job and the token
    page.see("#generate .why h3", "Token 3 of 5")
    page.see("#generate .why .sentences")
    page.see("#generate .generate-matrix .lead", "the control")
    page.tab.locator("#generate .matrix tbody button").nth(3).press("Enter")
    page.see("#generate .why h3", "Token 4 of 5")
    page.see("#generate .why .sentences")
    page.tab.get_by_role("button", name="Open this token in the other tabs").click()
    page.see("#methods .method")
    assert page.tab.input_value("#text-input").startswith("the cat sat on the mat")
    turned(page, "Generate")
    assert page.tab.locator("#generate .token").count() == 0


@pytest.mark.usefixtures("little_time", "endless_jobs")
def test_generating_is_cancelled(visit: Callable[..., Visit], tiny: Any) -> None:
    page = opened(visit, "the cat sat on the mat", f"&model={quote(tiny.name)}", "Generate")
    page.tab.get_by_role("button", name="Continue the text").click()
    page.tab.locator("#generate .job button").click()
    page.see("#generate", "Cancelled")


def test_runs_are_browsed(visit: Callable[..., Visit], client: Any, server_state: Any) -> None:
    from tests.server.serving import finished

    ask = {"model": "zoo:sentiment", "text": "a run to find again", "methods": ["grad-l2"], "test": False}
    job = finished(client, client.post("/api/jobs/explain", json=ask).json())
    page = visit()
    page.tab.get_by_role("button", name="Runs").click()
    page.tab.get_by_role("button", name=job["id"]).click()
    page.see(".run .parts", "a run to find again")
    with page.tab.expect_download() as held:
        page.tab.get_by_role("link", name="Save as one HTML file").click()
    assert held.value.suggested_filename == f"{job['id']}.html"
    page.tab.get_by_role("button", name="Open in Explain").click()
    page.see("#answer .verdict")
    assert page.tab.input_value("#text-input") == "a run to find again"


def test_an_atlas_is_browsed(visit: Callable[..., Visit], client: Any) -> None:
    """RunView again from the maps that were stored."""
    from tests.server.serving import finished

    ask = {"model": "zoo:sentiment", "text": "an atlas to find again"}
    job = finished(client, client.post("/api/jobs/attention", json=ask).json())
    page = visit(f"#view=runs&run={job['run']}")
    page.see(".run .views canvas")
    page.see(".run .kicker", "zoo:sentiment")
    page.tab.locator(".run .tab", has_text="Matrix").click()
    page.see(".run .matrix canvas")
    page.tab.get_by_role("button", name="Open in Explain").click()
    page.see("#answer .verdict")
    assert page.tab.input_value("#text-input") == ask["text"]


def test_a_link_opens_the_same_elsewhere(visit: Callable[..., Visit]) -> None:
    page = opened(visit, TEXT, "&target=negative&methods=grad-l2,attention-max&unit=token")
    first = page.tab.inner_text("#methods")
    other = visit(page.tab.url.partition("/#")[2] and "#" + page.tab.url.partition("#")[2])
    other.see("#methods .method")
    assert other.tab.inner_text("#methods") == first
    other.see("#targets select", None)
    assert other.tab.locator("#targets select").first.input_value() == "negative"


def test_copied_python_runs(visit: Callable[..., Visit], tmp_path: Any, monkeypatch: Any) -> None:
    page = opened(visit, TEXT, "&methods=grad-x-input")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.tab.get_by_role("button", name="Copy as Python").click()
    page.see("#copies button", "Copied")
    code = page.tab.evaluate("navigator.clipboard.readText()")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "copied", "exec"), {})
    assert TEXT in (tmp_path / "why.html").read_text(encoding="utf-8")
    page.tab.get_by_role("button", name="Copy as CLI").click()
    assert page.tab.evaluate("navigator.clipboard.readText()").startswith("heedful explain")


def test_hostile_text_is_shown(visit: Callable[..., Visit]) -> None:
    evil = "<img src=x onerror=hacked=1></script><script>hacked=1</script> \"'& שלום"
    page = opened(visit, evil, tab="Try it")
    page.tab.locator("#try .word").first.click()
    page.tab.locator("#try .tools button", has_text="Delete").click()
    page.see("#try .compared")
    assert page.tab.evaluate("typeof hacked") == "undefined"
    assert "<img src=x" in page.tab.inner_text("#verdict")
    turned(page, "Methods")
    assert "<img src=x" in page.tab.inner_text("#methods")


def test_by_keyboard_alone(visit: Callable[..., Visit]) -> None:
    page = visit()
    press = page.tab.keyboard.press
    press("Tab")
    assert page.focus() == "Skip to the input"
    press("Enter")
    page.tab.keyboard.type(TEXT)
    page.see("#methods .method")
    page.see("#verdict .sentences", TESTED)
    page.tab_to("Methods")
    for _ in range(2):
        press("ArrowRight")
    assert page.focus() == "Try it"
    page.tab_to("the")  # the first word: a toolbar is one stop, its words are reached by arrows
    for _ in range(3):
        press("ArrowRight")
    assert page.focus() == "great"
    press("Delete")
    page.see("#try .compared .actual")
    assert page.focus().startswith("great, removed")
    press("m")
    page.see("#try .word.changed")
    press("r")
    page.tab.keyboard.type("awful")
    press("Enter")
    page.see("#try .version .said", "food is awful")
    assert page.focus().startswith("great, replaced by awful")
    press("Escape")
    page.gone("#try .word.changed")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colours(visit: Callable[..., Visit], scheme: str) -> None:
    page = opened(visit, TEXT, color_scheme=scheme)
    assert page.darkness() is (scheme == "dark")
    page.tab.locator("#theme").click()  # light
    page.tab.locator("#theme").click()  # dark
    assert page.darkness() is True
    page.tab.reload()
    page.see("#methods .method")
    assert page.darkness() is True


@pytest.mark.parametrize(("width", "scale"), [(390, 3), (600, 2), (320, 1)])
def test_narrow_and_zoomed(visit: Callable[..., Visit], width: int, scale: int) -> None:
    """390 pixels; 1200 pixels at 200 %, which is 600; and the 320 of WCAG's reflow."""
    page = opened(visit, viewport={"width": width, "height": 800}, device_scale_factor=scale)
    page.see("#verdict .sentences", TESTED)
    for tab in ("Evidence", "Attention", "How it was made", "Methods", "Try it"):
        turned(page, tab)
        assert page.tab.evaluate("document.documentElement.scrollWidth") <= width, tab
    page.tab.locator("#try .word", has_text="great").click()
    page.tab.locator("#try .tools button", has_text="Delete").click()
    page.see("#try .compared")
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= width
    small = page.tab.evaluate(
        "[...document.querySelectorAll('button, select, input')].filter(e => "
        "!['checkbox', 'radio'].includes(e.type) && "
        "e.offsetParent && e.getBoundingClientRect().height < 16).map(e => e.outerHTML.slice(0, 80))"
    )
    assert small == []


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.slow), "dark"])
def test_axe_finds_nothing_serious(visit: Callable[..., Visit], scheme: str) -> None:
    page = opened(visit, TEXT, color_scheme=scheme)
    page.see("#verdict .sentences", TESTED)
    page.tab.get_by_role("button", name="Save in Runs").click()
    page.see("#copies button", "Open in Runs")
    page.tab.locator("details.choose summary").click()
    assert page.serious() == []
    turned(page, "Try it")
    page.tab.locator("#try .word", has_text="great").click()
    page.tab.locator("#try .tools button", has_text="Delete").click()
    page.see("#try .compared")
    for tab in ("Try it", "Evidence", "How it was made"):
        turned(page, tab)
        assert page.serious() == [], tab
    page.tab.get_by_role("button", name="Runs", exact=True).click()
    page.see(".runs-list table")
    assert page.serious() == []
    page.tab.locator(".runs-list tr", has_text="explanation").first.get_by_role("button").click()
    page.see(".run .parts .verdict")
    page.tab.wait_for_timeout(400)
    assert page.serious() == []


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.slow), "dark"])
def test_axe_finds_nothing_serious_inside(visit: Callable[..., Visit], tiny: Any, scheme: str) -> None:
    """Attention, what is written, a feature and its steering."""
    page = opened(
        visit, "the cat sat on the mat", f"&model={quote(tiny.name)}", "Attention", color_scheme=scheme
    )
    page.tab.get_by_role("button", name="Show every head").click()
    page.see("#attention .views canvas")
    page.tab.wait_for_timeout(400)  # as long as colours take
    assert page.serious() == []
    turned(page, "Generate")
    page.tab.get_by_role("button", name="Continue the text").click()
    page.see("#generate table.matrix")
    page.tab.locator("#generate .token").first.click()
    page.see("#generate .why .sentences")
    page.tab.wait_for_timeout(400)
    assert page.serious() == []
    turned(page, "Features")
    page.tab.locator("#features .fires tbody button").first.click()
    page.see("#features .sides.next .bars")
    page.see("#features .limit p")
    page.tab.get_by_role("button", name="What is it active on").click()
    page.see("#features .about-feature .example")
    page.tab.wait_for_timeout(400)
    assert page.serious() == []
