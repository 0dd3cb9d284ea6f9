"""The page of the study: who may ask, what is kept, and that it works without a script."""

from __future__ import annotations

import html
import json
import random
import re
import sqlite3
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn
from scipy import stats
from starlette.testclient import TestClient
from tests.attack.full_disk import full_disk

from heedful.cli.main import main
from heedful.core.errors import HeedfulError
from heedful.labs.data.mails import Mail
from heedful.labs.human_study import server as study
from heedful.labs.human_study.answers import AnswerFile, StudyQuestion, StudyShare
from heedful.labs.human_study.study_trials import ExplanationWord, Round, ShownMail

HOST = "http://127.0.0.1:8766"
EVIL = '<script>alert(1)</script>"&'


def a_round() -> Round:
    mail = Mail(1, f"Sender: {EVIL}", EVIL)
    side = tuple(
        ShownMail(mail, "spam", (ExplanationWord(EVIL, 1.0, 0.0), ExplanationWord("sender", -0.5, 1.0)))
        for _ in range(2)
    )
    return Round((0.98, 0.95), (0.46, 0.94), {"lime": (side, side)})


@pytest.fixture
def answers(tmp_path: Path) -> AnswerFile:
    return AnswerFile(tmp_path / "answers.sqlite", "a study")


@pytest.fixture
def client(answers: AnswerFile) -> TestClient:
    app: Any = study.application([a_round() for _ in range(4)], answers)
    return TestClient(app, base_url=HOST, headers={"origin": HOST}, follow_redirects=False)


def token(client: TestClient) -> str:
    found = re.search(r'name="token" value="([^"]+)"', client.get("/").text)
    assert found is not None
    return html.unescape(found[1])


def begin(client: TestClient) -> None:
    assert client.post("/begin", data={"token": token(client)}).status_code == 303


# --- taking the test ---------------------------------------------------------------------------------------


def test_a_sitting_from_begin_to_end(client: TestClient, answers: AnswerFile) -> None:
    begin(client)
    mark = token(client)
    for number in range(1, 5):
        page = client.get("/round")
        assert f"Round {number} of 4" in page.text
        sent = client.post("/answer", data={"token": mark, "number": str(number), "picked": "left"})
        assert (sent.status_code, sent.headers["location"]) == (303, "/round")
    assert client.get("/round").headers["location"] == "/end"
    page = client.get("/end").text
    with sqlite3.connect(answers.path) as base:
        rows = base.execute("SELECT sees, better, picked, seconds FROM round").fetchall()
    right = sum(better == picked for _, better, picked, _ in rows)
    assert right == 2  # sides are drawn in equal numbers
    assert f"{right} of 4 rounds" in page
    assert Counter(row[0] for row in rows) == {"explanations": 2, "accuracy": 2}
    assert all(seconds >= 0 for *_, seconds in rows)


def test_what_is_seen_is_what_was_drawn(client: TestClient, answers: AnswerFile) -> None:
    page = study.pages.question(StudyQuestion(1, 0, "accuracy", "left"), 4, a_round(), "t")
    assert page.index("95.0 %") < page.index(
        "98.0 %"
    )  # the better one, which is right less often, on the left
    assert "because of" not in page
    assert "0.46" not in page  # the truth is not shown
    page = study.pages.question(StudyQuestion(1, 0, "explanations", "right"), 4, a_round(), "t")
    assert "98.0 %" not in page
    assert page.count("because of") == 4


def test_a_second_answer_changes_nothing(client: TestClient, answers: AnswerFile) -> None:
    begin(client)
    mark = token(client)
    client.get("/round")
    for picked in ("left", "right"):
        client.post("/answer", data={"token": mark, "number": "1", "picked": picked})
    client.post("/answer", data={"token": mark, "number": "3", "picked": "left"})  # was not shown yet
    with sqlite3.connect(answers.path) as base:
        assert base.execute("SELECT number, picked FROM round WHERE picked IS NOT NULL").fetchall() == [
            (1, "left")
        ]


def test_the_end_is_not_shown_before_it(client: TestClient) -> None:
    assert client.get("/end").headers["location"] == "/"
    assert client.get("/round").headers["location"] == "/"
    begin(client)
    assert client.get("/end").headers["location"] == "/round"


# --- who may ask -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", ""])
def test_other_names_are_refused(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999", None])
def test_other_origins_write_nothing(answers: AnswerFile, origin: str | None) -> None:
    app: Any = study.application([a_round()] * 4, answers)
    bare = TestClient(app, base_url=HOST, follow_redirects=False)
    headers = {} if origin is None else {"origin": origin}
    assert bare.post("/begin", data={"token": token(bare)}, headers=headers).status_code == 403
    with sqlite3.connect(answers.path) as base:
        assert base.execute("SELECT count(*) FROM person").fetchone() == (0,)


def test_forms_need_the_token_a_side_and_their_own_size(client: TestClient) -> None:
    assert client.post("/begin", data={"token": "guess"}).status_code == 403
    assert client.post("/begin", data={}).status_code in (403, 415)
    begin(client)
    mark = token(client)
    client.get("/round")
    for form in ({"number": "1", "picked": "both"}, {"number": "one", "picked": "left"}, {"number": "1"}):
        assert client.post("/answer", data={"token": mark, **form}).status_code == 400
    assert client.post("/answer", data={"token": "no", "number": "1", "picked": "left"}).status_code == 403
    assert client.post("/begin", content="x" * 5000, headers=FORM).status_code == 413
    assert client.post("/begin", json={"token": mark}).status_code == 415
    assert client.request("DELETE", "/").status_code == 405
    many = "&".join(f"a{n}=1" for n in range(50))
    assert client.post("/begin", content=many, headers=FORM).status_code == 403


FORM = {"content-type": "application/x-www-form-urlencoded"}


def test_everything_is_escaped_and_sealed(client: TestClient) -> None:
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "form-action 'self'" in policy
    assert "script" not in policy
    assert page.headers["x-frame-options"] == "DENY"
    begin(client)
    cookie = client.post("/begin", data={"token": token(client)}).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    shown = study.pages.question(StudyQuestion(1, 0, "explanations", "left"), 4, a_round(), EVIL)
    assert "<script" not in shown
    assert html.escape(EVIL, quote=False) in shown.replace("&quot;", '"')
    assert client.get("/style.css").headers["content-type"].startswith("text/css")


# --- what is kept ------------------------------------------------------------------------------------------


def test_sittings_are_drawn_in_equal_halves() -> None:
    firsts: Counter[Any] = Counter()
    for seed in range(200):
        asked = study.sitting(8, random.Random(seed))
        assert sorted(each.material for each in asked) == list(range(8))
        assert [each.number for each in asked] == list(range(1, 9))
        assert Counter(each.sees for each in asked) == {"explanations": 4, "accuracy": 4}
        assert Counter(each.better for each in asked) == {"left": 4, "right": 4}
        firsts[asked[0].sees, asked[0].better] += 1
    assert stats.chisquare(list(firsts.values())).pvalue > 0.001


def test_shares_are_counted_and_their_interval_is_clopper_and_pearsons(answers: AnswerFile) -> None:
    assert answers.shares() == [
        StudyShare(s, 0, 0, 0, None, (0.0, 1.0)) for s in ("explanations", "accuracy")
    ]
    rng = np.random.default_rng(0)
    hits: Counter[str] = Counter()
    for _ in range(5):
        asked = study.sitting(8, random.Random(int(rng.integers(99))))
        name = answers.begin(asked)
        for each in asked:
            found, total = answers.next(name)
            assert (found, total) == (each, 8)
            picked = each.better if rng.random() < 0.7 else {"left": "right", "right": "left"}[each.better]
            assert answers.answer(name, each.number, picked)
            hits[each.sees] += picked == each.better
    other = AnswerFile(answers.path, "another study")
    assert other.shares()[0].rounds == 0
    assert other.next(name) == (None, 0)
    for share in answers.shares():
        assert (share.people, share.rounds, share.right) == (5, 20, hits[share.sees])
        exact = stats.binomtest(share.right, 20).proportion_ci(method="exact")
        np.testing.assert_allclose(share.interval, exact)
    assert sum(share.rounds for share in answers.shares(name)) == 8


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database at all, but long enough to look at")
    with pytest.raises(HeedfulError, match="cannot be used for the answers"):
        AnswerFile(tmp_path / "notes.txt", "a study")


def damage(path: Path) -> None:
    """The head says that it is a database; the rest is not."""
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * (len(content) - 100))


def test_a_damaged_file_is_told_wherever_it_is_used(answers: AnswerFile) -> None:
    name = answers.begin([StudyQuestion(1, 0, "accuracy", "left")])
    damage(answers.path)
    uses = [lambda: answers.begin([]), lambda: answers.next(name), lambda: answers.answer(name, 1, "left")]
    for use in (*uses, answers.shares, lambda: AnswerFile(answers.path, "a study")):
        with pytest.raises(HeedfulError, match=r"cannot be used for the answers: .*malformed"):
            use()


def test_a_full_disk_is_told_to_a_visitor(client: TestClient, answers: AnswerFile) -> None:
    """Not where the file is; what was answered before stays."""
    begin(client)
    mark = token(client)
    client.get("/round")
    sent = {"token": mark, "number": "1", "picked": "left"}
    with full_disk():
        refused = [client.post("/begin", data={"token": mark}), client.post("/answer", data=sent)]
    for each in refused:
        assert each.status_code == 507
        assert "The answers cannot be read or written: " in each.text
        assert str(answers.path) not in each.text
    assert client.post("/answer", data=sent).status_code == 303
    assert sum(share.rounds for share in answers.shares()) == 1


def test_a_damaged_file_is_told_to_a_visitor(client: TestClient, answers: AnswerFile) -> None:
    begin(client)
    mark = token(client)
    damage(answers.path)
    places = ("/round", "/end", "/results")
    refused = [client.post("/begin", data={"token": mark}), *map(client.get, places)]
    assert [each.status_code for each in refused] == [507] * 4
    assert client.get("/").status_code == 200  # needs no answers


def test_results_of_a_damaged_file_are_one_line(
    answers: AnswerFile, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(answers.path)
    words = ["lab", "study", "choose-the-classifier", "--results", "--database", str(answers.path)]
    assert main(words) == 2
    assert "cannot be used for the answers" in capsys.readouterr().err


def test_a_taken_port_is_told() -> None:
    with study.listen(0) as taken:
        taken.listen()
        with pytest.raises(HeedfulError, match="cannot be used"):
            study.listen(taken.getsockname()[1])


# --- the command -------------------------------------------------------------------------------------------


def test_results_are_told_without_a_server(
    answers: AnswerFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = AnswerFile(answers.path, "choose-the-classifier, seed 0")
    name = kept.begin([StudyQuestion(1, 0, "accuracy", "left"), StudyQuestion(2, 1, "accuracy", "left")])
    for number, picked in ((1, "left"), (2, "right")):
        kept.next(name)
        kept.answer(name, number, picked)
    asked = ["lab", "study", "choose-the-classifier", "--results"]
    assert main([*asked, "--database", str(answers.path), "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["share"] is None
    assert (second["sees"], second["right"], second["rounds"], second["share"]) == ("accuracy", 1, 2, 0.5)
    assert main([*asked, "--database", str(answers.path)]) == 0
    assert "0.50 (0.01 to 0.99), 1 of 2 rounds right" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    assert main([*asked, "--database", "none.sqlite"]) == 2  # no file, and none is made
    assert "no answers in none.sqlite" in capsys.readouterr().err
    assert not (tmp_path / "none.sqlite").exists()
    assert main(asked) == 2  # nothing is written where nobody named a place
    assert "--database" in capsys.readouterr().err


def test_a_lab_without_a_study_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "study", "superposition", "--database", "answers.sqlite"]) == 2
    assert "has no study" in capsys.readouterr().err


def test_the_command_serves_a_person_and_tells_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server on a free port, a simulated person who always picks the left one, a stranger, another site."""
    servers, at = list[uvicorn.Server](), study.listen(0)
    base = f"http://127.0.0.1:{at.getsockname()[1]}"

    class Kept(uvicorn.Server):
        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            servers.append(self)

    monkeypatch.setattr(uvicorn, "Server", Kept)
    monkeypatch.setattr(study, "listen", lambda port: at)
    monkeypatch.setattr(study, "material", lambda seed, say=None: [a_round() for _ in range(4)])
    words = ["lab", "study", "choose-the-classifier", "--database", str(tmp_path / "people.sqlite")]
    thread = threading.Thread(target=main, args=([*words, "--port", "0", "-q"],), daemon=True)
    thread.start()
    try:
        until = time.monotonic() + 60
        while not (servers and servers[0].started) and time.monotonic() < until:
            time.sleep(0.02)
        with httpx.Client(base_url=base, headers={"origin": base}, follow_redirects=True) as person:
            found = re.search(r'name="token" value="([^"]+)"', person.get("/").text)
            assert found is not None
            form = {"token": html.unescape(found[1])}
            assert person.post("/begin", data=form, headers={"origin": "http://evil.test"}).status_code == 403
            assert person.get("/", headers={"host": "evil.test"}).status_code == 421
            page = person.post("/begin", data=form).text
            for number in range(1, 5):
                assert f"Round {number} of 4" in page
                assert EVIL not in page
                page = person.post("/answer", data=form | {"number": str(number), "picked": "left"}).text
            assert "You picked the better classifier in 2 of 4 rounds." in page
    finally:
        for server in servers:
            server.should_exit = True
        thread.join(60)
    assert not thread.is_alive()
    with sqlite3.connect(tmp_path / "people.sqlite") as kept:
        rows = kept.execute("SELECT sees, better = picked FROM round").fetchall()
    kept.close()
    assert len(rows) == 4
    capsys.readouterr()
    assert main([*words, "--results"]) == 0
    told = capsys.readouterr().out
    for sees in ("explanations", "accuracy"):
        right = sum(hit for what, hit in rows if what == sees)
        low, high = stats.binomtest(right, 2).proportion_ci(method="exact")
        assert f"{right / 2:.2f} ({low:.2f} to {high:.2f}), {right} of 2 rounds right" in told
