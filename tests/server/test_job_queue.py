"""The queue of long work: turns, progress, cancelling, failing, forgetting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from heedful.core.errors import HeedfulError
from heedful.server.job_queue import ENDED, MAX_FINISHED_JOBS, MAX_WAITING, MAX_WAITING_PER_OWNER, Job, Jobs
from heedful.server.model_thread import Busy, ModelThread, OpenQuestions


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    found = Jobs(workers=3)
    yield found
    found.close()
    found.join()


def job(work: Callable[[Job], None], owner: str = "a") -> Job:
    return Job("test", owner, {}, work)


def until(true: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def ended(found: Job) -> Job:
    until(lambda: found.state in ENDED)
    return found


def test_a_job_runs_tells_and_shows(jobs: Jobs) -> None:
    def work(own: Job) -> None:
        own.report("half", 1, 2)
        own.show({"found": 1})

    found = ended(jobs.put(job(work)))
    assert (found.state, found.label, found.done, found.total) == ("done", "half", 1, 2)
    assert found.result == {"found": 1}
    assert found.seconds >= 0
    assert jobs.get(found.id) is found


def test_one_owner_has_one_running_and_others_do_not_wait(jobs: Jobs) -> None:
    """Three workers, and one user with three long jobs: another's job runs at once."""
    go = threading.Event()
    slow = [jobs.put(job(lambda own: go.wait(20) and None, "greedy")) for _ in range(3)]
    until(lambda: slow[0].state == "running")
    quick = ended(jobs.put(job(lambda own: None, "modest")))
    assert quick.state == "done"
    assert [one.state for one in slow] == ["running", "waiting", "waiting"]
    go.set()
    assert all(ended(one).state == "done" for one in slow)


def test_a_running_job_is_cancelled_where_it_tells(jobs: Jobs) -> None:
    began, rounds = threading.Event(), []

    def work(own: Job) -> None:
        for number in range(100_000):
            rounds.append(number)
            own.report("counting", number, 100_000)
            began.set()
            time.sleep(0.001)

    found = jobs.put(job(work))
    began.wait(20)
    jobs.cancel(found)
    assert ended(found).state == "cancelled"
    assert len(rounds) < 50_000
    assert ended(jobs.put(job(lambda own: None))).state == "done"  # the worker lives


def test_no_except_clause_catches_a_cancellation(jobs: Jobs) -> None:
    began = threading.Event()

    def work(own: Job) -> None:
        while True:
            try:
                own.report("round")
                began.set()
            except Exception:  # what careless code on the way does
                continue

    found = jobs.put(job(work))
    began.wait(20)
    jobs.cancel(found)
    assert ended(found).state == "cancelled"


def test_a_waiting_job_is_cancelled_at_once(jobs: Jobs) -> None:
    go = threading.Event()
    first = jobs.put(job(lambda own: go.wait(20) and None))
    second = jobs.put(job(lambda own: own.show({"ran": True})))
    jobs.cancel(second)
    assert second.state == "cancelled"
    go.set()
    ended(first)
    time.sleep(0.05)
    assert second.result is None


def test_a_failure_is_told_and_the_worker_lives(jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> None:
    def mistake(own: Job) -> None:
        raise HeedfulError("that cannot be", "it is a test", "Do not")

    def surprise(own: Job) -> None:
        raise RuntimeError("secret")

    found = ended(jobs.put(job(mistake)))
    assert (found.state, found.error) == ("failed", "that cannot be: it is a test. Do not.")
    found = ended(jobs.put(job(surprise)))
    assert found.state == "failed"
    assert "secret" not in found.error  # goes to the log of the server, not to the client
    assert "secret" in capsys.readouterr().err
    for _ in range(6):
        assert ended(jobs.put(job(lambda own: None))).state == "done"


def test_the_queue_has_an_end(jobs: Jobs) -> None:
    go = threading.Event()
    running = jobs.put(job(lambda own: go.wait(20) and None))
    until(lambda: running.state == "running")
    for _ in range(MAX_WAITING_PER_OWNER):
        jobs.put(job(lambda own: None))
    with pytest.raises(Busy, match="waiting"):
        jobs.put(job(lambda own: None))
    for number in range(MAX_WAITING):  # the other two workers take some of these
        try:
            jobs.put(job(lambda own: go.wait(20) and None, f"owner {number % 20}"))
        except Busy:
            break
    else:
        pytest.fail("the queue took everything")
    go.set()


def test_old_jobs_are_forgotten_and_running_ones_are_not(jobs: Jobs) -> None:
    go = threading.Event()
    running = jobs.put(job(lambda own: go.wait(20) and None, "long"))
    first = ended(jobs.put(job(lambda own: None)))
    for _ in range(MAX_FINISHED_JOBS + 1):
        ended(jobs.put(job(lambda own: None)))
    assert jobs.get(first.id) is None
    assert jobs.get(running.id) is running
    assert len(jobs.jobs) <= MAX_FINISHED_JOBS + 2
    go.set()


def test_large_results_are_forgotten_sooner(jobs: Jobs) -> None:
    first = ended(jobs.put(Job("attention", "a", {}, lambda own: None)))
    for _ in range(11):
        ended(jobs.put(Job("attention", "a", {}, lambda own: None)))
    assert jobs.get(first.id) is None
    assert sum(one.kind == "attention" for one in jobs.jobs.values()) <= 11


def test_time_left_follows_what_is_done() -> None:
    found = job(lambda own: None)
    assert found.left is None
    found.state, found.began = "running", time.time() - 10
    found.done, found.total = 1, 5
    assert found.left == pytest.approx(40, rel=0.05)


def test_a_job_stands_still_while_a_question_is_open(jobs: Jobs) -> None:
    """It counts on only when the question has been answered, whether that waited or ran."""
    questions, go = OpenQuestions(), threading.Event()
    thread, rounds = ModelThread("model", 4, questions), []
    first = thread.put(lambda: go.wait(20))
    second = thread.put(lambda: len(rounds))

    def work(own: Job) -> None:
        own.give_way = lambda: questions.give_way(20)
        for number in range(3):
            own.report("counting", number)
            rounds.append(number)

    found = jobs.put(job(work))
    until(lambda: found.state == "running")
    assert questions.count == 2
    go.set()
    assert first.result(20) is True
    assert second.result(20) == 0
    assert ended(found).state == "done"
    assert len(rounds) == 3
    assert questions.count == 0
    thread.close()


def test_questions_that_never_end_do_not_stop_a_job_for_good() -> None:
    questions, go = OpenQuestions(), threading.Event()
    thread = ModelThread("model", 4, questions)
    thread.put(lambda: go.wait(20))
    questions.give_way(0.01)  # returns
    assert questions.count == 1
    go.set()
    thread.close()


def test_questions_that_fail_or_are_dropped_are_not_open() -> None:
    questions, go = OpenQuestions(), threading.Event()
    thread = ModelThread("model", 2, questions)
    failing = thread.put(lambda: [go.wait(20), 1 / 0])
    until(lambda: thread.queue.empty())
    dropped = [thread.put(lambda: None) for _ in range(2)]
    with pytest.raises(Busy):
        thread.put(lambda: None)
    assert questions.count == 3
    thread.close()
    go.set()
    assert isinstance(failing.exception(20), ZeroDivisionError)
    assert all(one.cancelled() for one in dropped)
    until(lambda: questions.count == 0)


def test_questions_whose_asker_has_left_leave_room() -> None:
    go = threading.Event()
    thread = ModelThread("model", 2, OpenQuestions())
    thread.put(lambda: go.wait(20))
    until(lambda: thread.queue.empty())
    for _ in range(5):
        for left in [thread.put(lambda: None) for _ in range(2)]:
            assert left.cancel()
    last = thread.put(lambda: "answered")
    go.set()
    assert last.result(20) == "answered"
    thread.close()
