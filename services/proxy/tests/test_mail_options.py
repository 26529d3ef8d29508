"""What becomes of `--mail-type` and `--mail-user` at a submit, and of Slurm's records in events."""

from typing import Any

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_proxy.requests.mails import OFF, OTHER_ADDRESS, with_own_mail
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.watch.job_facts import job_event, transitions
from clusterra_sbatch.script_job import ScriptJob

ADA = SlurmUser(name="ada", uid=20001, gid=20001)


def job(**fields: Any) -> ScriptJob:
    return ScriptJob(environment=("A=b",), **fields)


@pytest.mark.parametrize("address", ["ada@acme.example", " ADA@acme.example", "ada"])
def test_the_own_address_is_taken_and_slurm_names_the_owner(address: str) -> None:
    own, warnings = with_own_mail(job(mail_type=("END",), mail_user=address), ADA, "ada@acme.example", mails=True)

    assert (own.mail_type, own.mail_user, warnings) == (("END",), None, ())


@pytest.mark.parametrize(
    "address", ["eve@acme.example", "ada@acme.example,eve@acme.example", "eve", "ada@acme.example\n"]
)
def test_no_other_address_is_ever_passed_on(address: str) -> None:
    own, warnings = with_own_mail(job(mail_type=("END",), mail_user=address), ADA, "ada@acme.example", mails=True)

    assert own.mail_user is None
    assert warnings == (() if address.strip() == "ada@acme.example" else (OTHER_ADDRESS,))


def test_without_a_server_for_mails_only_those_who_ask_for_them_are_warned() -> None:
    assert with_own_mail(job(mail_type=("END",)), ADA, "", mails=False)[1] == (OFF,)
    assert with_own_mail(job(mail_user="", mail_type=()), ADA, "ada@acme.example", mails=False)[1] == ()
    assert with_own_mail(job(), ADA, "ada@acme.example", mails=False)[1] == ()


def test_types_about_which_no_mail_is_sent_are_named_unless_all_are_asked_for() -> None:
    every = ("BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT", "INVALID_DEPENDENCY")

    assert with_own_mail(job(mail_type=every), ADA, "", mails=True)[1] == ()
    (warning,) = with_own_mail(job(mail_type=("END", "TIME=50%", "STAGE_OUT")), ADA, "", mails=True)[1]
    assert warning.startswith("--mail-type=TIME_LIMIT_50,STAGE_OUT has no effect")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["END", "FAIL"], ("END", "FAIL")),
        (["TIME=100%", "TIME=90%", "STAGE_OUT", "ARRAY_TASKS"], ("TIME_LIMIT", "ARRAY_TASKS")),
        ([], ()),
        (None, ()),
    ],
)
def test_events_have_the_types_in_the_words_of_sbatch_and_no_address(flags: Any, told: tuple[str, ...]) -> None:
    record = JobRecord.model_validate(
        {
            "job_id": 42,
            "job_state": ["PENDING"],
            "submit_time": {"set": True, "infinite": False, "number": 1_700_000_000},
            "mail_type": flags,
            "mail_user": "eve@else.example",
        }
    )

    (transition,) = transitions(record)
    fact = job_event(transition, record, "ada").fact

    assert fact.mail == told
    assert "eve" not in fact.model_dump_json()
    assert ("mail" in fact.model_dump()) is bool(told)
