"""The pure parts of mails: who wants which, what they say of hostile names, and how many there are in an hour."""

import unicodedata
from email import message_from_bytes
from email.headerregistry import Address
from email.policy import default
from typing import Any, get_args

import pytest
from clusterra_contracts.events import KINDS, MAIL_TYPES, DigestFact, Event, JobFact, JobKind, event_of
from clusterra_contracts.identity import now
from clusterra_contracts.notifications import Choices
from clusterra_contracts.rpc.mails import Recipient
from clusterra_events.mails import wanted
from clusterra_events.mails.hourly_bound import HOUR_SECONDS, HourlyBound
from clusterra_events.mails.sending import MailForm, MailSender, mail_id
from clusterra_events.mails.targets import target_of
from clusterra_events.mails.text import body_of, shown, subject_of
from clusterra_events.mails.wanted import Audience, audience_of, is_wanted
from clusterra_events.settings import Settings
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from .mail_world import job_fact
from .webhook_world import REF

NOTHING = Choices()
EVERYTHING = Choices.model_validate(dict.fromkeys(Choices.model_fields, True))
PERSON = Recipient(member="id-ada", address="ada@acme.example")


def event(fact: Any) -> Event:
    return event_of("proxy", REF, fact, version="1.0", time=now())


def digest(**changes: Any) -> DigestFact:
    given: dict[str, Any] = {
        "job_id": "42",
        "name": "align",
        "user": "ada",
        "uid": 20001,
        "number": 1,
        "counts": {"job.completed": 7},
        "totals": {"job.completed": 7},
        "tasks_left": 3,
        "since": now(),
        "until": now(),
    }
    return DigestFact(**{**given, **changes})


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("job.submitted", ()),
        ("job.running", ("BEGIN",)),
        ("job.requeued", ("REQUEUE",)),
        ("job.completed", ("END",)),
        ("job.cancelled", ("END",)),
        ("job.failed", ("END", "FAIL")),
        ("job.timeout", ("END", "FAIL", "TIME_LIMIT")),
    ],
)
def test_a_mail_type_includes_what_slurm_sends_for_it(kind: JobKind, types: tuple[str, ...]) -> None:
    found = [each for each in MAIL_TYPES if is_wanted(job_fact(kind=kind, mail=(each,)), NOTHING)]

    assert found == list(types)
    assert (kind in wanted.KINDS) is bool(types)


def test_every_kind_of_a_target_has_an_audience_and_no_other() -> None:
    assert set(wanted.KINDS) <= set(KINDS)
    for kind in get_args(JobKind):
        told = audience_of(job_fact(kind=kind))
        assert (told == Audience("ada", 20001)) is (kind in wanted.KINDS)
    target = target_of("acme", now())
    assert (target.kinds, target.arrays, target.users) == (wanted.KINDS, "digest", ())
    assert target.id == target_of("acme", now()).id != target_of("other", now()).id


@given(st.sampled_from(get_args(JobKind)), st.sets(st.sampled_from(MAIL_TYPES)), st.sampled_from(["42", "42_7"]))
def test_who_asks_for_nothing_gets_nothing_and_more_types_never_mean_less(
    kind: JobKind, types: set[str], job_id: str
) -> None:
    def wants(asked: set[str]) -> bool:
        return is_wanted(job_fact(job_id, kind=kind, mail=tuple(asked)), NOTHING)

    assert not wants(set())
    assert not wants({"SOMETHING_NEWER"})
    assert all(wants(types | {more}) >= wants(types) for more in MAIL_TYPES)


def test_an_array_is_told_as_a_whole_and_its_first_failure_at_once() -> None:
    for kind in ("job.running", "job.completed", "job.cancelled"):
        assert not is_wanted(job_fact("42_7", kind=kind, mail=("BEGIN", "END", "FAIL")), EVERYTHING)
        assert is_wanted(job_fact("42_7", kind=kind, mail=("BEGIN", "END", "ARRAY_TASKS")), NOTHING)
    assert is_wanted(job_fact("42_7", kind="job.failed", mail=("FAIL",)), NOTHING)
    assert not is_wanted(job_fact("42_7", kind="job.failed", mail=("END",)), NOTHING)


@pytest.mark.parametrize(
    ("changes", "types"),
    [
        ({}, ("ARRAY_TASKS,END",)),
        ({"tasks_left": 0}, ("END",)),
        ({"tasks_left": None}, ("END",)),
        ({"counts": {"job.failed": 1}}, ("FAIL",)),
        ({"counts": {"job.failed": 0, "job.running": 3}}, ("BEGIN",)),
        ({"counts": {"job.running": 3}, "number": 2}, ("ARRAY_TASKS,BEGIN",)),
        ({"counts": {"job.timeout": 2}, "tasks_left": 0}, ("END", "FAIL", "TIME_LIMIT")),
    ],
)
def test_a_digest_is_told_when_the_array_as_a_whole_begins_fails_or_ends(
    changes: dict[str, Any], types: tuple[str, ...]
) -> None:
    asked = (*MAIL_TYPES[:-1], *(f"ARRAY_TASKS,{each}" for each in ("BEGIN", "END")))

    found = {each for each in asked if is_wanted(digest(**changes, mail=tuple(each.split(","))), NOTHING)}

    assert found >= set(types)
    assert {each for each in found if "," not in each} == {each for each in types if "," not in each}


def test_choices_are_about_own_jobs_as_the_mail_types_are() -> None:
    chosen = {"jobs_started": "BEGIN", "jobs_ended": "END", "jobs_failed": "FAIL"}
    for name, kind in chosen.items():
        for each in get_args(JobKind):
            by_choice = is_wanted(job_fact(kind=each, mail=()), Choices.model_validate({name: True}))
            assert by_choice is is_wanted(job_fact(kind=each, mail=(kind,)), NOTHING)


def sent(fact: JobFact) -> Any:
    """A mail as its recipient reads it."""
    form = MailForm(Address("Clusterra", addr_spec="clusterra@clusterra.example"), "https://console.example")
    sender = MailSender(None, None, form)  # type: ignore[arg-type]
    message = sender._message(REF, event(fact), PERSON, mail_id(REF, event(fact), PERSON), "")
    return message_from_bytes(message.as_bytes(), policy=default)


HEADERS = {
    *("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "X-Auto-Response-Suppress"),
    *("MIME-Version", "Content-Type", "Content-Transfer-Encoding"),
}
HOSTILE = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from("\r\n\t\0:<>@\"'=?_.\u202e\u2028\u2029\u200f\x85\x0b\x0c\x1c"),
    ),
    max_size=200,
)


@given(HOSTILE, HOSTILE)
def test_no_name_changes_the_form_of_a_mail(name: str, reason: str) -> None:
    fact = job_fact(kind="job.failed", name=name, reason=reason, state="FAILED", account=name, nodes=(name,))

    read = sent(fact)

    assert set(read.keys()) == HEADERS
    assert read["To"] == "ada@acme.example"
    assert read["Subject"].startswith("[acme/main] Job 42")
    assert "failed after 3 min (FAILED)" in read["Subject"]
    assert len(read["Subject"]) < 200
    text = read.get_content().replace("\r\n", "\n")
    assert read.get_content_type() == "text/plain"
    assert text.count("\n") < 30
    assert not {each for each in text if unicodedata.category(each) in {"Cc", "Cf", "Zl", "Zp"}} - {"\n"}


@pytest.mark.parametrize(
    "name",
    ["a\r\nBcc: eve@else.example", "=?utf-8?q?a=0ABcc=3A_eve=40else=2Eexample?=", "\r\n\r\n<b>hello", "x" * 100_000],
)
def test_a_name_that_is_made_to_add_a_header_adds_none(name: str) -> None:
    read = sent(job_fact(name=name, kind="job.failed", state="FAILED"))

    assert set(read.keys()) == HEADERS
    assert read["Bcc"] is None
    assert len(read.as_bytes()) < 3000


def test_an_encoded_word_in_a_name_stays_as_it_is_written() -> None:
    assert "= ?utf-8?q?=E2=80=AE?=" in sent(job_fact(name="=?utf-8?q?=E2=80=AE?="))["Subject"]


def test_a_mail_has_the_facts_and_says_how_to_stop() -> None:
    fact = job_fact(kind="job.failed", state="OUT_OF_MEMORY", reason="OutOfMemory", exit_code=137, nodes=("n1",))

    text = body_of(REF, event(fact), "https://console.example/")

    assert "https://console.example/c/main/jobs/42\n" in text
    for line in ("State:     OUT_OF_MEMORY", "Exit code: 137", "Owner:     ada", "Cluster:   acme/main"):
        assert line in text
    assert "--mail-type=END,FAIL" in text
    assert "console.example" not in body_of(REF, event(fact), "")
    assert "notifications set" in body_of(REF, event(job_fact(mail=())), "")


def test_a_digest_counts_all_tasks_so_far() -> None:
    fact = digest(counts={"job.failed": 2}, totals={"job.completed": 7, "job.failed": 3}, failed_tasks=("42_1", "42_9"))

    assert subject_of(REF, event(fact)) == "[acme/main] Array 42 align: 7 completed, 3 failed, 3 left"
    assert "42_1, 42_9" in body_of(REF, event(fact), "")


@given(st.text(max_size=300), st.integers(1, 100))
def test_what_is_shown_is_one_line_of_a_bounded_length(text: str, most: int) -> None:
    line = shown(text, most)
    assert len(line) <= most
    assert len(line.splitlines()) <= 1


@given(st.lists(st.floats(0, HOUR_SECONDS / 2), max_size=60), st.integers(1, 5))
def test_no_hour_has_more_mails_than_its_share(pauses: list[float], most: int) -> None:
    at, times = 0.0, list[float]()
    bound = HourlyBound[str](most, lambda: at)
    for pause in pauses:
        at += pause
        if bound.left("ada"):
            bound.count("ada")
            times.append(at)

    # An hour begins with its first mail, so that two neighbouring ones may fall into any span of an hour.
    assert all(sum(begin <= each < begin + HOUR_SECONDS for each in times) <= 2 * most for begin in times)
    assert bound.left("bob") == most


GOOD: dict[str, Any] = {"smtp_url": "smtp://mail.example", "mail_from": "clusterra@example.org"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"smtp_url": "http://mail.example"},
        {"smtp_url": "smtp://"},
        {"smtp_url": "smtp://clusterra:secret@mail.example"},
        {"smtp_url": "smtp://clusterra@mail.example"},
        {"mail_from": ""},
        {"mail_from": "Clusterra <a@b.example>"},
        {"mail_from": "a@b.example\r\nBcc: c@d.example"},
        {"mails_per_hour": 0},
    ],
)
def test_settings_that_send_no_mails_are_refused_at_the_start_without_repeating_them(wrong: dict[str, Any]) -> None:
    Settings(**GOOD)
    with pytest.raises(ValidationError) as refused:
        Settings(**{**GOOD, **wrong})
    assert "secret" not in str(refused.value)
