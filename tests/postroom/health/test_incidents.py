"""Incidents told to a Slack that really listens, and kept in the real local AWS."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pydantic import SecretStr

from blocks.slack import Slack
from postroom.aws.names import Names
from postroom.health.facts import gather, sensor_lives
from postroom.health.incidents import Incidents
from postroom.health.judgement import Trouble, troubles
from postroom.health.slack_text import escape
from postroom.ledger import Book, Event, Granted, State
from postroom.ledger.book import new_holder
from postroom.ledger.clock import Clock
from postroom.settings import load
from postroom.tasks.job_book import Jobs
from postroom.tasks.job_plan import read_plan
from tests.fixtures.slack import TOKEN, FakeSlack


class Watch(Clock):
    """A clock that can be set forward."""

    def __init__(self) -> None:
        self.ahead = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead

    def forward(self, minutes: float) -> None:
        self.ahead += int(minutes * 60_000)


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def book(provisioned: Names, watch: Watch) -> Book:
    return Book(load(prefix=provisioned.prefix), clock=watch)


def block(slack: FakeSlack, token: str = TOKEN) -> Slack:
    return Slack(channel="#post-room", token=SecretStr(token), api=slack.url)


STUCK = Trouble("work:task:a", "warning", "A task gives no sign of life since 6 min", "task:a")
WORSE = Trouble("work:task:a", "critical", "A task gives no sign of life since 11 min", "task:a")


def test_an_incident_is_one_message_that_is_updated_and_gets_a_recovery_note(book: Book, slack: FakeSlack) -> None:
    for trouble in (STUCK, STUCK, WORSE, WORSE):
        Incidents(book, block(slack)).settle([trouble])  # each time as after a restart
    assert len(slack.posted) == 1
    assert [method for method, _ in slack.calls] == ["chat.postMessage", "chat.update"]
    assert "11 min" in slack.posted[0]["text"]
    assert slack.posted[0]["text"].startswith("🔴")
    assert Incidents(book, block(slack)).settle([]) == []
    assert slack.posted[0]["text"].startswith("✅ Recovered")
    assert slack.replies == ["Recovered, after 0 min."]
    Incidents(book, block(slack)).settle([])
    assert len(slack.calls) == 4


def test_what_comes_back_within_an_hour_is_the_same_message_and_later_a_new_one(
    book: Book, slack: FakeSlack, watch: Watch
) -> None:
    incidents = Incidents(book, block(slack))
    for _ in range(3):
        incidents.settle([STUCK])
        watch.forward(10)
        incidents.settle([])
        watch.forward(10)
    assert len(slack.posted) == 1
    watch.forward(61)
    incidents.settle([STUCK])
    assert len(slack.posted) == 2


def test_what_goes_on_is_told_again_after_an_hour_and_not_before(book: Book, slack: FakeSlack, watch: Watch) -> None:
    incidents = Incidents(book, block(slack))
    for _ in range(12):
        incidents.settle([STUCK])
        watch.forward(5)
    assert slack.replies == []
    watch.forward(2)
    incidents.settle([STUCK])
    assert slack.replies == ["Still so, after 62 min."]
    incidents.settle([STUCK])
    assert (len(slack.posted), len(slack.replies)) == (1, 1)


def test_two_checks_at_once_post_one_message(book: Book, slack: FakeSlack) -> None:
    together = threading.Barrier(4)

    def check(_: int) -> None:
        together.wait(10)
        Incidents(book, block(slack)).settle([STUCK])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(check, range(4)))
    assert len(slack.posted) == 1


@pytest.mark.parametrize("broken", [500, 429])
def test_a_slack_that_does_not_answer_is_told_at_the_next_check(book: Book, slack: FakeSlack, broken: int) -> None:
    slack.broken = broken
    assert len(Incidents(book, block(slack)).settle([STUCK])) == 1
    assert slack.posted == []
    slack.broken = None
    Incidents(book, block(slack)).settle([STUCK])
    assert len(slack.posted) == 1


def test_what_slack_did_not_take_is_told_once_at_a_later_check(book: Book, slack: FakeSlack, watch: Watch) -> None:
    incidents = Incidents(book, block(slack))
    incidents.settle([STUCK])
    slack.broken = 500
    incidents.settle([WORSE])
    slack.broken = None
    incidents.settle([WORSE])
    assert "11 min" in slack.posted[0]["text"], "the update"
    watch.forward(61)
    slack.broken = 500
    incidents.settle([WORSE])
    slack.broken = None
    incidents.settle([WORSE])
    assert slack.replies == ["Still so, after 61 min."]
    slack.broken = 500
    assert incidents.settle([]) == [], "it is over, whoever knows"
    watch.forward(5)
    slack.broken = None
    assert incidents.settle([]) == []
    assert slack.posted[0]["text"].startswith("✅ Recovered")
    assert slack.replies[1:] == ["Recovered, after 61 min."]
    told = len(slack.calls)
    incidents.settle([])
    assert len(slack.calls) == told


def test_what_comes_back_before_its_end_could_be_told_goes_on_in_silence(book: Book, slack: FakeSlack) -> None:
    incidents = Incidents(book, block(slack))
    incidents.settle([STUCK])
    slack.broken = 500
    incidents.settle([])
    slack.broken = None
    told = len(slack.calls)
    assert [each.trouble for each in incidents.settle([STUCK])] == [STUCK]
    assert len(slack.calls) == told
    incidents.settle([])
    assert slack.replies == ["Recovered, after 0 min."]


def test_an_end_that_could_not_be_told_for_a_day_is_not_news_any_more(
    book: Book, slack: FakeSlack, watch: Watch
) -> None:
    incidents = Incidents(book, block(slack))
    incidents.settle([STUCK])
    slack.broken = 500
    incidents.settle([])
    watch.forward(25 * 60)
    incidents.settle([])
    slack.broken = None
    incidents.settle([])
    assert slack.replies == []


def test_a_wrong_token_breaks_nothing_and_does_not_reach_the_log(
    book: Book, slack: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(Incidents(book, block(slack, "xoxb-wrong-wrong-wrong")).settle([STUCK])) == 1
    assert "invalid_auth" in caplog.text
    assert "xoxb-wrong" not in caplog.text


def test_without_slack_incidents_are_kept_and_logged_once(book: Book, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        assert [each.trouble for each in Incidents(book, None).settle([STUCK])] == [STUCK]
    assert caplog.text.count("incident work:task:a") == 1


def test_a_check_ends_only_the_incidents_that_it_looks_after(book: Book, slack: FakeSlack) -> None:
    incidents = Incidents(book, block(slack))
    letters = Trouble("dead-letters:q", "warning", "1 dead letter of q")
    incidents.settle([letters], lambda key: key.startswith("dead-letters:"))
    still = incidents.settle([], lambda key: not key.startswith("dead-letters:"))
    assert [each.trouble.key for each in still] == ["dead-letters:q"]


HOSTILE = "<!channel> <https://evil.example.com|click> *bold* `code` & ann@example.com sk-ant-0123456789abcdef\u202e"


def test_words_of_strangers_can_neither_call_nor_link_nor_format(book: Book, slack: FakeSlack) -> None:
    Incidents(book, block(slack)).settle([Trouble(f"work:{HOSTILE[:60]}", "critical", HOSTILE, HOSTILE * 200)])
    [message] = slack.posted
    assert "<!channel>" not in message["text"]
    assert "<https" not in message["text"]
    for each in message["blocks"]:
        elements = [each["text"]] if "text" in each else each["elements"]
        for element in elements:
            assert element["type"] == "plain_text" or "<!channel>" not in element["text"]
    shown = str(message)
    assert "sk-ant-0123" not in shown
    assert "ann@example.com" not in shown
    assert "\u202e" not in shown


def test_escaping_leaves_ordinary_words_as_they_are() -> None:
    assert escape("A task – after 6 min, 50 % (done)") == "A task – after 6 min, 50 % (done)"
    assert escape("a < b & c > d") == "a &lt; b &amp; c &gt; d"


# the facts


def begin(book: Book, key: str, job: str = "task") -> Granted:
    started = book.leases.start(key, job, new_holder())
    assert isinstance(started, Granted)
    return started


def test_facts_are_read_from_the_book_and_the_queues(book: Book, watch: Watch) -> None:
    sensor_lives(book)
    begin(book, "task:stuck")
    book.leases.enter("task:later", "task", None)
    for n in range(3):
        lease = begin(book, f"task:f{n}").lease
        book.leases.finish(lease, State.FAILED, reason="torn", event=Event("Task Failed", f"TASK#f{n}", "task"))
    book.events.append(Event("Task Timeout", "TASK#slow", "task", {"jobId": "j"}))
    for what in ("Task Refused", "Mail Preempted", "Mail Cancelled", "Task Processing Failed"):
        book.events.append(Event(what, "TASK#other", "task"))
    book.events.append(Event("Task Failed", "TASK#f0", "task", {"dead_letter": "x"}))  # told of once more
    book.events.append(Event("Mail Completed", "MAIL#m", "mail"))
    watch.forward(7)
    found = gather(book, dead_letters=0)
    [stuck] = found.working
    assert stuck.key == "task:stuck"
    assert 6.9 < (found.now - stuck.last_sign) / 60_000 < 7.2
    assert found.waiting == 1
    assert sorted(found.failures) == ["TASK#f0", "TASK#f1", "TASK#f2", "TASK#slow"]
    assert found.last_success is not None
    assert found.sensor_sign is not None
    watch.forward(60)
    later = gather(book, dead_letters=0)
    assert (later.failures, later.failures_a_day) == ([], 4)
    watch.forward(24 * 60)
    assert (gather(book, dead_letters=0).failures_a_day, gather(book, dead_letters=0).last_success) == (0, None)


def test_work_that_has_ended_or_waits_for_a_person_or_its_hour_is_no_alarm_however_old_it_is(
    book: Book, watch: Watch
) -> None:
    sensor_lives(book)
    for n, state in enumerate((State.DONE, State.REFUSED, State.CANCELLED)):
        book.leases.finish(begin(book, f"task:e{n}").lease, state, reason="as it is")
    two_hours = book.clock.now_ms() + 2 * 3_600_000
    book.leases.put_off(begin(book, "task:limited").lease, two_hours, "the model is busy")
    watch.forward(90)
    sensor_lives(book)
    assert troubles(gather(book, dead_letters=3), book.settings) == []  # three letters wait for a review


def test_a_job_owes_its_step_since_something_last_happened_to_it(book: Book, watch: Watch) -> None:
    jobs = Jobs(book)
    jobs.create(read_plan({"name": "j", "tasks": [{"id": "a", "prompt": "x"}]}, job_id="j1"))
    entered = jobs.read("j1").entered_at
    watch.forward(20)
    assert gather(book, dead_letters=0).owing == [("j1", entered)]
    lease = begin(book, jobs.read("j1").key_of("a")).lease
    assert gather(book, dead_letters=0).owing == []
    done = book.leases.finish(lease, State.DONE)
    assert gather(book, dead_letters=0).owing == [("j1", done.ended_at)]


def test_a_queue_that_is_never_seen_empty_has_an_age(book: Book, watch: Watch) -> None:
    from tests.workers.sensing import send

    send(book.names.mail_queue, "{}")
    began = gather(book, dead_letters=0).untouched_since
    assert list(began) == [book.names.mail_queue]
    watch.forward(20)
    later = gather(book, dead_letters=0)
    assert (later.untouched_since, later.moved) == (began, {})
    at = book.events.append(Event("Mail Processing Started", "MAIL#m", "mail")).at_ms
    assert gather(book, dead_letters=0).moved == {book.names.mail_queue: at}


def test_hundreds_of_failures_are_all_counted(book: Book) -> None:
    def fail(n: int) -> Any:
        return book.events.append(Event("Task Failed", f"TASK#{n}", "task", {"reason": "x" * 3000}))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(fail, range(500)))  # more than one page
    assert len(gather(book, dead_letters=0).failures) == 500
