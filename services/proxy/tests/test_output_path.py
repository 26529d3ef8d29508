"""Output paths with `%u`, which slurmctld and slurmd expand differently."""

import time

import pytest
from clusterra_proxy.requests.output_path import PATH_MAX, known_values, with_user_name, written_path
from clusterra_proxy.slurmrestd.records import JobRecord

VALUES = {"u": "20001", "j": "7", "A": "6", "a": "3", "x": "20001"}


@pytest.mark.parametrize(
    ("pattern", "told", "written"),
    [
        ("/mnt/efs/%u/%j.out", "/mnt/efs/20001/7.out", "/mnt/efs/ada/7.out"),
        ("%u-%x-%5j.log", "/mnt/efs/20001-20001-00007.log", "/mnt/efs/ada-20001-00007.log"),
        ("/mnt/efs/%x/%u.%u", "/mnt/efs/20001/20001.20001", "/mnt/efs/20001/ada.ada"),
        ("%u/%A_%3a", "/mnt/efs/20001/6_003", "/mnt/efs/ada/6_003"),
        ("/mnt/efs/20001/%j", "/mnt/efs/20001/7", "/mnt/efs/20001/7"),
        ("/mnt/efs/%%u/%j", "/mnt/efs/%u/7", "/mnt/efs/%u/7"),
        ("/mnt/efs/%%%u", "/mnt/efs/%20001", "/mnt/efs/%ada"),
        ("/mnt/efs/%u/%j.out", "/mnt/efs/ada/7.out", "/mnt/efs/ada/7.out"),
        ("", "/mnt/efs/slurm-7.out", "/mnt/efs/slurm-7.out"),
        ("/mnt/efs/%5u-%z", "/mnt/efs/20001-%z", "/mnt/efs/ada-%z"),
        # What is not known or not explained stays as it is told.
        ("/mnt/efs/%u.%N", "/mnt/efs/20001.w1", "/mnt/efs/20001.w1"),
        ("/mnt/efs/%u\\z", "/mnt/efs/%uz", "/mnt/efs/%uz"),
        ("%u", "/mnt/efs/120001", "/mnt/efs/120001"),
        ("/efs/%u", "/mnt/efs/20001", "/mnt/efs/20001"),
        ("%9999999999j%u", "/mnt/efs/720001", "/mnt/efs/720001"),
        ("/" + "%u" * PATH_MAX, "/" + "20001" * PATH_MAX, "/" + "20001" * PATH_MAX),
    ],
)
def test_only_what_stands_for_the_user_becomes_the_name(pattern: str, told: str, written: str) -> None:
    assert written_path(pattern, told, VALUES, "ada") == written


def test_an_owner_without_a_known_name_or_uid_changes_nothing() -> None:
    assert written_path("/mnt/efs/%u", "/mnt/efs/20001", VALUES, "") == "/mnt/efs/20001"
    assert written_path("/mnt/efs/%u", "/mnt/efs/20001", {}, "ada") == "/mnt/efs/20001"


def test_the_values_are_those_of_the_record() -> None:
    task = JobRecord(job_id=9, array_job_id=6, array_task_id=3, name="fit", user_id=20001, job_state=("RUNNING",))
    job = JobRecord(job_id=9, name="fit", job_state=("RUNNING",))

    common = {"j": "9", "J": "9", "x": "fit", "r": "0", "s": "batch", "n": "0", "t": "0"}
    assert known_values(task) == common | {"u": "20001", "A": "6", "a": "3", "b": "3"}
    assert known_values(job) == common | {"A": "9", "a": "4294967294", "b": "4"}


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("/mnt/efs/" + "%x" * 16 + "%u\\z.out", "/mnt/efs/" + "%x" * 16 + "%uz.out"),
        ("/mnt/efs/" + "%x" * 18 + "b%10u.out", "/mnt/efs/" + "a" * 64 * 18 + "b0000020001.out"),
        ("%x" * 2000 + "%u", "/" + "a" * 4000),
        ("%" * 4000 + "u", "a" * 4000),
    ],
)
def test_no_pattern_of_a_user_takes_long(pattern: str, told: str) -> None:
    began = time.process_time()

    assert written_path(pattern, told, {**VALUES, "x": "a" * 64}, "ada") == told

    assert time.process_time() - began < 0.1


@pytest.mark.parametrize(
    ("pattern", "submitted"),
    [
        ("/mnt/efs/%u_%N_%x.log", "/mnt/efs/ada_%N_%x.log"),
        ("%5u/%5j", "ada/%5j"),
        ("%%u-%%%u", "%%u-%%ada"),
        ("%5%u", "%5%u"),
        ("%u\\a", "%u\\a"),
        ("%", "%"),
        ("plain", "plain"),
    ],
)
def test_the_name_of_the_user_is_in_what_is_submitted(pattern: str, submitted: str) -> None:
    assert with_user_name(pattern, "ada") == submitted


def test_all_patterns_of_a_record_are_known_but_the_sluid() -> None:
    record = JobRecord(
        job_id=9, array_job_id=6, array_task_id=13, name="fit", user_id=20001, job_state=("RUNNING",), nodes="w1"
    )
    pattern = "/efs/%u.%A.%3a.%b.%J.%j.%N.%n.%r.%s.%t.%x"
    told = "/efs/{}.6.013.3.9.9.w1.0.0.batch.0.fit"

    assert written_path(pattern, told.format(20001), known_values(record), "ada") == told.format("ada")
