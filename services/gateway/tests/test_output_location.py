"""Which file in the shared folder a job's output is, by the paths that Slurm tells."""

import pytest
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.slurm import Job
from clusterra_gateway.http.requests.errors import NotFound
from clusterra_gateway.jobs.output.output import relative_path


def job(stdout: str = "", stderr: str = "", *, array_tasks: str = "") -> Job:
    return Job(
        job_id="7",
        name="x",
        user="ada",
        uid=20001,
        state="RUNNING",
        partition="main",
        submitted_at=now(),
        standard_output=stdout,
        standard_error=stderr,
        array_tasks=array_tasks,
    )


@pytest.mark.parametrize("shared", ["/mnt/efs", "/mnt/efs/"])
def test_a_path_is_relative_to_the_shared_folder(shared: str) -> None:
    both = job("/mnt/efs/home/ada/7.out", "/mnt/efs/7.err")

    assert relative_path(both, "stdout", shared) == "home/ada/7.out"
    assert relative_path(both, "stderr", shared) == "7.err"


@pytest.mark.parametrize("path", ["", "/mnt/efs/job_%A_%a.out"])
def test_an_unknown_path_is_none(path: str) -> None:
    assert relative_path(job(path, array_tasks="0-3"), "stdout", "/mnt/efs") is None


@pytest.mark.parametrize("array_tasks", ["", "0-3"])
def test_a_relative_pattern_of_an_array_is_not_known_yet(array_tasks: str) -> None:
    assert relative_path(job("task_%a.out", array_tasks=array_tasks), "stdout", "/mnt/efs") is None


@pytest.mark.parametrize(
    ("told", "opened"),
    [
        ("/mnt/efs/./x_7.out", "x_7.out"),
        ("/mnt/efs/sub/../x.out", "x.out"),
        ("/mnt/efs//x.out", "x.out"),
        ("//mnt/efs/x.out", "x.out"),
        ("/root/../mnt/efs/x.out", "x.out"),
        ("/mnt/efs/pct%_7.out", "pct%_7.out"),
    ],
)
def test_a_path_is_normal_before_it_is_opened(told: str, opened: str) -> None:
    assert relative_path(job(told), "stdout", "/mnt/efs") == opened


@pytest.mark.parametrize(
    "path",
    ["/root/7.out", "/mnt/efs2/7.out", "/dev/null", "7.out", "/mnt/efs/../root/x", "/mnt/efs/a/../../x", "/mnt/efs/.."],
)
def test_an_output_outside_of_the_shared_folder_is_not_found_by_name(path: str) -> None:
    with pytest.raises(NotFound, match=f"writes its stdout to {path}, outside"):
        relative_path(job(path), "stdout", "/mnt/efs")


def test_a_stderr_that_is_the_stdout_is_told() -> None:
    with pytest.raises(NotFound, match="writes its stderr to its stdout"):
        relative_path(job("/mnt/efs/7.out", "/mnt/efs/7.out"), "stderr", "/mnt/efs")
