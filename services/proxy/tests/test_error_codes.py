import pytest
from clusterra_proxy.slurmrestd.answers import ErrorEntry
from clusterra_proxy.slurmrestd.error_codes import error_from_answer, error_from_number
from clusterra_proxy.slurmrestd.errors import BadAnswer, NotUnderstood


@pytest.mark.parametrize(
    ("status", "number", "kind"),
    [
        (511, 1007, "unauthenticated"),
        (401, 0, "unauthenticated"),
        (500, 6010, "unauthenticated"),
        (404, 2017, "not_found"),
        (404, 0, "not_found"),
        (200, 0, "not_found"),
        (422, 2018, "not_found"),
        (422, 2010, "forbidden"),
        (422, 2014, "rejected"),
        (422, 2029, "rejected"),
        (422, 2063, "rejected"),
        (422, 2127, "rejected"),
        (422, 9999, "rejected"),
        (422, 2016, "conflict"),
        (502, 1800, "unavailable"),
        (500, -1, "unavailable"),
        (502, 7000, "unavailable"),
        # The answer to a cancel while slurmctld is unreachable.
        (403, 1, "unavailable"),
        (503, 0, "unavailable"),
    ],
)
def test_the_error_number_decides_before_the_status(status: int, number: int, kind: str) -> None:
    error = error_from_answer(
        status, (ErrorEntry(description="first", error_number=number, error="why"),), entity="job"
    ).error
    assert error.kind == kind
    assert error.detail == "first: why"
    assert error.code == (number or None)


def test_the_first_error_with_a_number_decides() -> None:
    entries = (ErrorEntry(description="general"), ErrorEntry(description="exact", error_number=2017))
    assert error_from_answer(500, entries, entity="job").error.kind == "not_found"


def test_what_slurmrestd_could_not_read_is_a_bad_answer_with_its_reason() -> None:
    entry = ErrorEntry(
        description="Unknown format", error_number=9202, error="Unable to convert", source="#/job/nodes/"
    )

    failed = error_from_answer(500, (entry,), entity="job")

    assert isinstance(failed, NotUnderstood)
    assert (failed.error.internal, failed.error.code) == (True, 9202)
    assert failed.error.detail == "Unknown format: Unable to convert"


@pytest.mark.parametrize(("number", "source"), [(9207, "#/job/shared[0]/"), (9202, "#/job_id/"), (9202, "#/jobs[3]/")])
def test_another_error_of_the_data_parser_proves_nothing(number: int, source: str) -> None:
    failed = error_from_answer(500, (ErrorEntry(error_number=number, source=source),), entity="job")

    assert type(failed) is BadAnswer


def test_slurmctlds_error_decides_before_that_of_the_data_parser() -> None:
    entries = (ErrorEntry(error_number=9207, source="#/job/shared[0]/"), ErrorEntry(error_number=2005))

    assert error_from_answer(500, entries, entity="job").error.kind == "rejected"


def test_without_an_error_text_the_detail_is_the_status() -> None:
    assert error_from_answer(500, (), entity="job").error.detail == "slurmrestd answered 500"


def test_an_error_number_alone_decides_the_kind() -> None:
    assert error_from_number(2002, "job 7: no").error.kind == "forbidden"
    assert error_from_number(2021, "job 7: over").error.kind == "conflict"
    assert error_from_number(4711, "job 7: new").error.kind == "rejected"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Invalid account or account/partition combination specified", "name an account"),
        ("Invalid qos specification", "name a QOS"),
        ("Invalid license specification", "name licences"),
        ("Requested reservation is invalid", "name a reservation"),
        ("Requested time limit is invalid (missing or exceeds some limit)", "that the partition allows"),
    ],
)
def test_a_name_that_slurm_refuses_has_a_hint(text: str, hint: str) -> None:
    failed = error_from_answer(422, (ErrorEntry(error_number=2999, error=text),), entity="job")

    assert hint in failed.error.hint
