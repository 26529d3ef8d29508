"""What commands make of records: ids of arrays, states, exit codes, and jobs that accounting does not have yet."""

import io
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from clusterra_cli.getopt import read
from clusterra_cli.slurm_commands import sbatch
from clusterra_cli.slurm_commands.failures import Away, CommandFailed, NotKnown, Refused
from clusterra_cli.slurm_commands.fields.job_values import Job
from clusterra_cli.slurm_commands.fields.sacct_fields import VALUES, Row
from clusterra_cli.slurm_commands.gateway import Gateway
from clusterra_cli.slurm_commands.reads.accounting import read_jobs
from clusterra_cli.slurm_commands.reads.job_end import ended_codes, exit_code_of
from clusterra_cli.slurm_commands.reads.queue import FEW_MISSING, MAX_TASKS, Queue, by_tasks, selects, task_numbers
from clusterra_cli.slurm_commands.reads.recent_submits import RECENT_SECONDS, note_submit, recent_submits
from clusterra_cli.slurm_commands.scancel import OPTIONS as SCANCEL
from clusterra_cli.slurm_commands.scancel import _found, selections
from clusterra_cli.slurm_commands.submits.script_options import taken_out

NOW = 1_800_000_000.0


def number(value: int) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": value}


def job(job_id: int, *states: str, **more: Any) -> Job:
    record = {
        "job_id": job_id,
        "job_state": list(states or ("PENDING",)),
        "name": "fit",
        "user_name": "ada",
        "user_id": 5,
    }
    return Job(record | more, now=NOW)


WAITING = job(12, array_job_id=number(12), array_task_string="3-5,9%2", array_max_tasks=number(2))
TASK = job(13, "RUNNING", array_job_id=number(12), array_task_id=number(2), start_time=number(1_799_999_000))


class Answers:
    """A gateway that answers reads with these records. Others are not known."""

    url, cluster = "https://clusterra.example", "main"

    def __init__(self, queue: Sequence[Job], accounted: Sequence[Mapping[str, Any]] = ()) -> None:
        self.queue = queue
        self.accounted = accounted
        self.listed: Sequence[Job] = queue

    def slurm(self, path: str, query: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        family, _, rest = path.partition("/")
        if family == "slurmdb":
            return {"jobs": self.accounted}
        if rest == "jobs/":
            return {"jobs": [each.record for each in self.listed]}
        wanted = rest.rpartition("/")[2]
        found = [each.record for each in self.queue if wanted in (str(each.id), str(each.array_id))]
        if not found:
            raise NotKnown
        return {"jobs": found}

    def ask(self, _method: str, _path: str) -> Mapping[str, Any]:
        return {"uid": 5, "name": "ada"}


def test_ids_of_arrays() -> None:
    assert (WAITING.full_id, TASK.full_id, job(7).full_id) == ("12_[3-5,9%2]", "12_2", "7")
    assert [each.full_id for each in by_tasks([WAITING, TASK])] == ["12_3", "12_4", "12_5", "12_9", "12_2"]


def test_long_lists_of_tasks_are_cut_as_slurm_cuts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = ",".join(str(each) for each in range(1, 80, 2))
    many = job(12, array_job_id=number(12), array_task_string=tasks)

    assert many.full_id.endswith(",...]")
    assert len(many.shown_tasks) <= 64
    monkeypatch.setenv("SLURM_BITSTR_LEN", "0")
    assert many.full_id == f"12_[{tasks}]"


@pytest.mark.parametrize(
    ("job_id", "found"),
    [("12", [12, 13]), ("12_2", [13]), ("12_4", [12]), ("12_[2,4]", [12, 13]), ("13", [13]), ("12_7", []), ("1", [])],
)
def test_what_an_id_names(job_id: str, found: list[int]) -> None:
    assert [each.id for each in (WAITING, TASK) if selects(job_id, each)] == found


def test_one_task_that_waits_is_told_alone() -> None:
    answers = Answers([WAITING, TASK])

    assert [each.full_id for each in Queue(answers).one("12_4")] == ["12_4"]  # type: ignore[arg-type]


def test_a_job_that_the_list_lacks_is_read_by_its_id() -> None:
    answers = Answers([job(7), job(8)])
    answers.listed = [job(7)]

    assert [each.id for each in Queue(answers).some(["7", "8", "9"])] == [7, 8]  # type: ignore[arg-type]


def test_times() -> None:
    assert TASK.elapsed_seconds == 1000
    assert job(1, time_limit=number(90)).limit == "1:30:00"
    assert job(1, time_limit={"set": False, "infinite": True, "number": 0}).limit == "UNLIMITED"


@pytest.mark.parametrize(
    ("records", "codes"),
    [
        ([("COMPLETED", 0, 0)], {1: 0}),
        ([("FAILED", 7, 0), ("COMPLETED", 0, 0)], {1: 7, 2: 0}),
        ([("FAILED", 0, 9)], {1: 1}),
        ([("TIMEOUT", 0, 0)], {1: 1}),
        ([("CANCELLED", 0, 15)], {1: 1}),
        ([("COMPLETED", 0, 0), ("RUNNING", 0, 0)], {1: 0}),
        ([("COMPLETING", 0, 0), ("FAILED", 2, 0)], {2: 2}),
        ([], {}),
    ],
)
def test_the_exit_code_of_a_job_that_was_waited_for(records: list[tuple[str, int, int]], codes: dict[int, int]) -> None:
    told = [ended(number, *each) for number, each in enumerate(records, start=1)]

    assert ended_codes(told) == codes


def ended(job_id: int, state: str, code: int, signal: int = 0) -> dict[str, Any]:
    exit_code = {"return_code": number(code), "signal": {"id": number(signal)}}
    return {"job_id": job_id, "job_state": [state], "exit_code": exit_code}


class Polls:
    """In place of the gateway: each poll of an array has its own answer."""

    def __init__(self, *answers: list[dict[str, Any]] | Refused) -> None:
        self._answers = iter(answers)

    def slurm(self, _path: str) -> dict[str, Any]:
        answer = next(self._answers)
        if isinstance(answer, Refused):
            raise answer
        return {"jobs": answer}


def test_the_code_of_a_task_that_slurm_has_forgotten_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    both = [ended(1, "FAILED", 3), ended(2, "RUNNING", 0)]

    assert exit_code_of(cast(Gateway, Polls(both, Away(), [ended(2, "COMPLETED", 0)])), "1") == 3


@pytest.mark.parametrize("refused", [Refused("Protocol authentication error", 1007), Refused("no scope jobs:read")])
def test_a_wait_ends_where_nobody_may_look_any_more(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)

    with pytest.raises(CommandFailed, match="goes on"):
        exit_code_of(cast(Gateway, Polls(refused)), "1")


def test_a_failed_task_that_slurm_has_forgotten_counts_by_accounting() -> None:
    left = ended(12, "COMPLETED", 0) | {"array_job_id": number(9)}
    accounted = [{**ended(10, "FAILED", 4), "state": {"current": ["FAILED"]}, "job_state": None}]

    assert exit_code_of(cast(Gateway, Polls([left], accounted)), "9") == 4


@pytest.mark.parametrize(
    ("tasks", "task_id", "named"),
    [
        ("3-10%2", None, ["42_[3-10]"]),
        ("3,5-7", None, ["42_[3,5-7]"]),
        ("", 2, ["42_2"]),
        (",".join(map(str, range(1000, 1100))), None, None),
    ],
)
def test_a_filter_cancels_no_other_task_of_an_array(tasks: str, task_id: int | None, named: list[str] | None) -> None:
    fields = {"array_task_id": number(task_id)} if task_id is not None else {"array_task_string": tasks}
    found = selections(job(50, array_job_id=number(42), **fields))

    if named is not None:
        assert found == named
    else:
        assert all(len(each) < 420 for each in found)
        assert ",".join(each.removeprefix("42_[").removesuffix("]") for each in found) == tasks


def test_each_named_job_is_read_beside_the_list() -> None:
    answers = Answers([job(number) for number in range(1, 60)])
    answers.listed = [job(7)]

    found = Queue(cast(Gateway, answers)).some([str(each) for each in range(1, 60)])

    assert [each.id for each in found] == list(range(1, 60))


def test_an_answer_without_a_list_is_no_empty_list() -> None:
    answers = Answers([])
    answers.slurm = lambda *_: {}  # type: ignore[method-assign]

    with pytest.raises(Away):
        Queue(cast(Gateway, answers)).all()


def test_a_requeued_job_is_as_the_queue_has_it() -> None:
    answers = Answers(
        [job(7, restart_cnt=1), job(8, "RUNNING")], [accounted(7, "NODE_FAIL"), accounted(8, "COMPLETED")]
    )

    found = read_jobs(cast(Gateway, answers), Queue(cast(Gateway, answers)), ["7", "8"], (0, None))

    assert [VALUES["State"](Row(each)) for each in found] == ["PENDING", "COMPLETED"]


def cancelled(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    monkeypatch.setenv("USER", "visitor")
    answers = Answers([job(7)])
    return _found(read(SCANCEL, arguments), [], Queue(cast(Gateway, answers)))


def test_a_filter_by_the_account_of_this_machine_means_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cancelled(monkeypatch, "-u", "visitor") == ["7"]
    assert cancelled(monkeypatch, "-u", "5") == ["7"]
    with pytest.raises(CommandFailed, match="Invalid user name: nosuch"):
        cancelled(monkeypatch, "-u", "nosuch")


def test_a_huge_range_of_tasks_is_bounded() -> None:
    assert len(task_numbers("0-9999999999")) == MAX_TASKS
    assert task_numbers("0-" + "9" * 400) == []


def accounted(job_id: int, state: str) -> dict[str, Any]:
    return {"job_id": job_id, "user": "ada", "state": {"current": [state]}, "name": "fit"}


def test_a_job_is_told_before_accounting_has_it_and_its_end_when_the_queue_has_it() -> None:
    queued = [job(7, "COMPLETED"), job(8, "PENDING"), job(9, "RUNNING")]
    gateway = Answers(queued, [accounted(7, "RUNNING"), accounted(9, "RUNNING"), accounted(6, "FAILED")])

    found = read_jobs(gateway, Queue(gateway), ["6", "7", "8", "9"], (0, None))  # type: ignore[arg-type]

    assert [(VALUES["JobID"](Row(each)), VALUES["State"](Row(each))) for each in found] == [
        ("6", "FAILED"),
        ("7", "COMPLETED"),
        ("8", "PENDING"),
        ("9", "RUNNING"),
    ]


@pytest.fixture
def _own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTERRA_CONFIG", str(tmp_path / "config.toml"))


@pytest.mark.usefixtures("_own_config")
def test_a_list_has_what_was_submitted_from_here_a_moment_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = cast(Gateway, answers := Answers([job(7), job(8), job(9)]))
    answers.listed = [job(7)]
    for job_id in ("7", "9", "10"):
        note_submit(gateway, job_id)
    other = Answers([])
    other.cluster = "other"

    assert [each.id for each in Queue(gateway).all()] == [7, 9]
    assert recent_submits(cast(Gateway, other)) == []
    noted = time.time()
    monkeypatch.setattr("time.time", lambda: noted + RECENT_SECONDS + 1)
    assert recent_submits(gateway) == []
    note_submit(gateway, "11")
    assert recent_submits(gateway) == [11]


@pytest.mark.usefixtures("_own_config")
def test_a_list_that_lacks_many_submits_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    submitted = [job(number) for number in range(100, 100 + FEW_MISSING + 5)]
    gateway = cast(Gateway, answers := Answers(submitted))
    answers.listed = []
    for each in submitted:
        note_submit(gateway, str(each.id))
    monkeypatch.setattr("time.sleep", lambda _seconds: setattr(answers, "listed", submitted[:10]))

    assert [each.id for each in Queue(gateway).all()] == [each.id for each in submitted]


def test_resources_of_a_job_that_only_the_queue_has() -> None:
    queued = job(8, tres_req_str="cpu=2,mem=1.50G,node=1,gres/gpu:a10g=1", tres_alloc_str="")
    gateway = Answers([queued])

    [found] = read_jobs(gateway, Queue(gateway), ["8"], (0, None))  # type: ignore[arg-type]

    assert VALUES["ReqMem"](Row(found)) == "1536M"
    assert VALUES["ReqTRES"](Row(found)) == "cpu=2,gres/gpu:a10g=1,mem=1536M,node=1"
    assert VALUES["AllocCPUS"](Row(found)) == "0"


def made(monkeypatch: pytest.MonkeyPatch, *arguments: str, script: str = "", **variables: str) -> Any:
    monkeypatch.setattr("os.environ", variables)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(script.encode())))
    return sbatch._job(read(sbatch.OPTIONS, arguments, first_word_ends=True))[1]


def test_named_variables_of_the_script_and_of_the_command_line_have_the_values_of_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = "#!/bin/sh\n#SBATCH --export=COLOUR,MISSING\n#SBATCH --get-user-env=L\nenv\n"

    by_script = made(monkeypatch, script=script, COLOUR="blue", SECRET="x")
    by_option = made(monkeypatch, "--export=SECRET", script=script, COLOUR="blue", SECRET="x")
    unnamed = made(monkeypatch, script="#!/bin/sh\nenv\n", COLOUR="blue")

    assert "COLOUR=blue" in by_script.job["environment"]
    assert not any(each.startswith("SECRET") for each in by_script.job["environment"])
    assert "SECRET=x" in by_option.job["environment"]
    assert not any(each.startswith("COLOUR") for each in unnamed.job["environment"])
    assert "get-user-env" not in by_script.script


def test_an_export_behind_a_comment_exports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    quoted = '#!/bin/sh\n#SBATCH -t 5 --export "COLOUR,SHAPE"\nenv\n'
    job = made(monkeypatch, script="#!/bin/sh\n#SBATCH --export=NONE # not --export=ALL\nenv\n", SECRET="x")
    named = made(monkeypatch, script=quoted, COLOUR="blue", SECRET="x")

    assert not any(each.startswith("SECRET") for each in (*job.job["environment"], *named.job["environment"]))
    assert job.script.count("--export") == 2
    assert "COLOUR=blue" in named.job["environment"]


def test_variables_may_say_that_sbatch_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"SBATCH_WAIT": "1", "SBATCH_HINT": "nomultithread"})

    words, job = sbatch._job(read(sbatch.OPTIONS, ["--wrap", "true"], first_word_ends=True))

    assert words.has("wait")
    assert "#SBATCH --hint=nomultithread" in job.script


def test_the_command_line_wins_over_variables_and_these_over_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "#!/bin/sh\n#SBATCH -p three\ntrue\n"

    job = made(monkeypatch, "-p", "one", "-M", "main", "--wait", script=script, SBATCH_PARTITION="two", SBATCH_QOS="q")

    lines = [each for each in job.script.split("\n") if "partition" in each or "-p " in each or "qos" in each]
    assert lines[0] == "#SBATCH -p three"
    assert lines[-1] == "#SBATCH --partition=one"
    assert "#SBATCH --qos=q" in lines
    assert "clusters" not in job.script
    assert "wait" not in job.script


@pytest.mark.parametrize(
    ("line", "left", "given"),
    [
        ("#SBATCH --wait                ", "#SBATCH                 ", ["wait"]),
        ("#SBATCH -t 5 -W --parsable", "#SBATCH -t 5  ", ["wait", "parsable"]),
        ("#SBATCH --get-user-env=L --propagate -c 2", "#SBATCH   -c 2", []),
        ("#SBATCH --wait-all-nodes=1", "#SBATCH --wait-all-nodes=1", []),
        ("#SBATCH -J 'a --wait b' # --wait", "#SBATCH -J 'a --wait b' # --wait", []),
        ("# --wait", "# --wait", []),
        ("echo\n#SBATCH --wait", "echo\n#SBATCH --wait", []),
    ],
)
def test_options_of_the_command_are_taken_out_of_the_script(line: str, left: str, given: list[str]) -> None:
    script, taken = taken_out(f"#!/bin/sh\n{line}\ntrue\n")

    assert (script, [each.name for each in taken]) == (f"#!/bin/sh\n{left}\ntrue\n", given)


def test_names_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "#SBATCH --job-name=sbatch" in made(monkeypatch, script="#!/bin/sh\ntrue\n").script
    assert "#SBATCH --job-name=wrap" in made(monkeypatch, "--wrap", "true").script
    assert "#SBATCH --job-name=sbatch" in made(monkeypatch, script="#!/bin/sh\n#SBATCH -AJones\ntrue\n").script
    assert "--job-name" not in made(monkeypatch, script="#!/bin/sh\n#SBATCH -HJones\ntrue\n").script


def test_a_reason_that_is_not_slurms_is_told_before_slurms_sentence() -> None:
    slurms = sbatch.refused_lines(Refused("Invalid qos specification", 2066))
    ours = sbatch.refused_lines(
        Refused("Invalid account or account/partition combination specified", 2045, "there is no account nope: none")
    )
    other = sbatch.refused_lines(Refused("the script is too long"))

    assert slurms == "sbatch: error: Batch job submission failed: Invalid qos specification"
    assert ours == (
        "sbatch: error: there is no account nope: none\n"
        "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified"
    )
    assert other == (
        "sbatch: error: the script is too long\nsbatch: error: Batch job submission failed: Unspecified error"
    )


def test_a_wrapped_line_takes_no_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandFailed, match="Script arguments not permitted"):
        made(monkeypatch, "--wrap", "true", "x")


def test_a_job_that_never_started_has_no_start() -> None:
    never = {"time": {"start": 4294967294, "end": 0}}

    assert VALUES["Start"](Row(never)) == "None"
    assert VALUES["End"](Row(never)) == "Unknown"
