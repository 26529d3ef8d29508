from datetime import UTC, datetime
from typing import Any

import pytest
from clusterra_contracts.rpc.job_fields import FurtherFields
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_sbatch.applying import apply
from clusterra_sbatch.checking import check, check_denied, with_flags
from clusterra_sbatch.options import LONG, SHORT
from clusterra_sbatch.parsing import parse
from clusterra_sbatch.problems import MAX_FINDINGS, InvalidScript
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
EPOCH = int(NOW.timestamp())
ENVIRONMENT = ("PATH=/usr/bin:/bin", "LANG=C")


def translate(*lines: str, **fields: Any) -> dict[str, Any]:
    """The fields that directives set in an otherwise empty job."""
    script = "\n".join(["#!/bin/sh", *(f"#SBATCH {line}" for line in lines), "true"])
    job = apply(script, JobDescription(environment=ENVIRONMENT, **fields), now=NOW).job
    described = job.model_dump(exclude_defaults=True)
    if described["environment"] == ENVIRONMENT:
        del described["environment"]
    return described


TRANSLATIONS: list[tuple[str, dict[str, Any]]] = [
    ("-J sim", {"name": "sim"}),
    ("--job-name=sim", {"name": "sim"}),
    ("--job-name sim", {"name": "sim"}),
    ("-Jsim", {"name": "sim"}),
    ('-J "two words"', {"name": "two words"}),
    (r"-J two\ words", {"name": "two words"}),
    ("-J sim # what it is for", {"name": "sim"}),
    ("-J sim#1", {"name": "sim"}),
    ("--job=sim", {"name": "sim"}),
    ("-p main", {"partition": "main"}),
    ("-A lab", {"account": "lab"}),
    ("-q high", {"qos": "high"}),
    ("-n 4", {"tasks": 4}),
    ("--mincpus=2", {"minimum_cpus_per_node": 2}),
    ("-O", {"overcommit": True}),
    ("--contiguous", {"contiguous": True}),
    ("--container=/mnt/efs/bundle", {"container": "/mnt/efs/bundle"}),
    ("--switches=1", {"required_switches": 1}),
    ("--switches=2@1:30:00", {"required_switches": 2, "wait_for_switch": 5400}),
    ("--prefer=general", {"prefer": "general"}),
    ("--batch=general", {"batch_features": "general"}),
    ("--oom-kill-step", {"oom_kill_step": 1}),
    ("--oom-kill-step=0", {"oom_kill_step": 0}),
    ("--use-min-nodes", {"flags": ("PREFER_MINIMUM_NODE_COUNT",)}),
    ("--ntasks-per-core=1", {"tasks_per_core": 1}),
    ("--ntasks-per-socket=2", {"tasks_per_socket": 2}),
    ("--ntasks-per-gpu=2", {"ntasks_per_tres": 2}),
    ("--sockets-per-node=1", {"sockets_per_node": 1}),
    ("-N2 -n4", {"nodes": "2", "tasks": 4}),
    ("-N 2-4", {"nodes": "2-4"}),
    ("-c 8", {"cpus_per_task": 8}),
    ("--mem=500", {"memory_per_node": 500}),
    ("--mem=2G", {"memory_per_node": 2048}),
    ("--mem=1T", {"memory_per_node": 1024 * 1024}),
    ("--mem=1500K", {"memory_per_node": 2}),
    ("--mem=0", {"memory_per_node": 0}),
    ("--mem-per-cpu=200MB", {"memory_per_cpu": 200}),
    ("--tmp=1G", {"temporary_disk_per_node": 1024}),
    ("-t 30", {"time_limit": 30}),
    ("-t 1:30", {"time_limit": 2}),
    ("-t 1:30:00", {"time_limit": 90}),
    ("-t 2-12", {"time_limit": 60 * 60}),
    ("-t 1-2:30", {"time_limit": 26 * 60 + 30}),
    ("-t 1-0:0:1", {"time_limit": 24 * 60 + 1}),
    ("--time-min=10", {"time_minimum": 10}),
    ("-o out.%j", {"standard_output": "out.%j"}),
    ("-e err.%j -i in.txt", {"standard_error": "err.%j", "standard_input": "in.txt"}),
    ("-a 0-9%3", {"array": "0-9%3"}),
    ("-d afterok:17:18", {"dependency": "afterok:17:18"}),
    ('-C "general&gpu"', {"constraints": "general&gpu"}),
    ("--gres=gpu:h100:2,shard:1", {"tres_per_node": "gres/gpu:h100:2,gres/shard:1"}),
    ("--gres=shard:1 --gpus-per-node=2", {"tres_per_node": "gres/shard:1,gres/gpu:2"}),
    ("-G 2", {"tres_per_job": "gres/gpu:2"}),
    ("--gpus=h100:2", {"tres_per_job": "gres/gpu:h100:2"}),
    ("--gpus-per-task=h100:1 -n 2", {"tres_per_task": "gres/gpu:h100=1", "tasks": 2}),
    ("--gpus-per-socket=1", {"tres_per_socket": "gres/gpu:1"}),
    ("-x w[1-2],w9", {"excluded_nodes": ("w[1-2],w9",)}),
    ("-w w1", {"required_nodes": ("w1",)}),
    ("--exclusive", {"shared": ("none",)}),
    ("--exclusive=user", {"shared": ("user",)}),
    ("-s", {"shared": ("oversubscribe",)}),
    ("--begin=now+2hours", {"begin_time": EPOCH + 7200}),
    ("--begin=now", {"begin_time": EPOCH}),
    ("--begin=uts1767225600", {"begin_time": 1767225600}),
    ("--begin=2026-02-01T12:00:00", {"begin_time": EPOCH + 86400}),
    ("--deadline=2026-02-01", {"deadline": EPOCH + 43200}),
    ("--requeue", {"requeue": True}),
    ("--no-requeue", {"requeue": False}),
    ("--nice", {"nice": 100}),
    ("--nice=-5", {"nice": -5}),
    ("-H", {"hold": True}),
    ("-HJ sim", {"hold": True, "name": "sim"}),
    ("-D /data", {"current_working_directory": "/data"}),
    ("--chdir=/data", {"current_working_directory": "/data"}),
    ("-L matlab:2", {"licenses": "matlab:2"}),
    ("--ntasks-per-node=4", {"tasks_per_node": 4}),
    ("--threads-per-core=1", {"threads_per_core": 1}),
    ("--reservation=week", {"reservation": "week"}),
    ("--wckey=k", {"wckey": "k"}),
    ("--open-mode=append", {"open_mode": ("APPEND",)}),
    ("-k", {"kill_on_node_fail": False}),
    ("--no-kill=off", {"kill_on_node_fail": True}),
    ("--signal=USR1", {"kill_warning_signal": "USR1", "kill_warning_delay": 60, "kill_warning_flags": ()}),
    (
        "--signal=BR:10@120",
        {
            "kill_warning_signal": "10",
            "kill_warning_delay": 120,
            "kill_warning_flags": ("BATCH_JOB", "RESERVATION_JOB"),
        },
    ),
    ("--signal=sigterm@5", {"kill_warning_signal": "TERM", "kill_warning_delay": 5, "kill_warning_flags": ()}),
    ("--mem-per-gpu=2G", {"memory_per_tres": "gres/gpu:2048"}),
    ("--cpus-per-gpu=4", {"cpus_per_tres": "gres/gpu:4"}),
    ("--kill-on-invalid-dep=yes", {"flags": ("KILL_INVALID_DEPENDENCY",)}),
    ("--kill-on-invalid-dep=No", {"flags": ("NO_KILL_INVALID_DEPENDENCY",)}),
    ("-m cyclic:block", {"distribution": "cyclic:block"}),
    ("--hint=nomultithread", {"threads_per_core": 1}),
    ("--hint=multithread", {}),
    (
        "--comment=mine --mail-type=END,FAIL --mail-user=ada@example.org",
        {"mail_type": ("END", "FAIL"), "mail_user": "ada@example.org"},
    ),
    ("--mail-type=end,TIME_LIMIT_80,time_limit,END,unknown", {"mail_type": ("END", "TIME=80%", "TIME=100%")}),
    (
        "--mail-type=ALL",
        {"mail_type": ("BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT", "INVALID_DEPENDENCY")},
    ),
    ("--mail-type=END --mail-type=NONE", {}),
    ("--mail-type=FAIL,NONE,END", {}),
    ("--parsable -Q -v", {}),
    ("--wait-all-nodes=1", {"wait_all_nodes": True}),
    ("--tasks-per-node=2", {"tasks_per_node": 2}),
    ("--exclusive=oversubscribe", {"shared": ("oversubscribe",)}),
    ("--output=none", {"standard_output": "/dev/null"}),
    ("-t UNLIMITED", {}),
    ("-t 5 -t 0", {}),
    ("-t 1-", {"time_limit": 1440}),
    ("-p main -p ''x --partition=", {}),
    ("--gres=gpu:1 --gres=none", {}),
    ("-N -4", {"nodes": "1-4"}),
    ("-N 2-8:2", {"nodes": "2-8:2"}),
    ("-N 4 -n 2", {"nodes": "2", "tasks": 2}),
    ("-N 2-4 -n 3", {"nodes": "2-3", "tasks": 3}),
    ("-n 5 --ntasks-per-node=2", {"tasks": 5, "tasks_per_node": 2, "minimum_nodes": 3}),
    ("-w w[1-2],w2,x --sockets-per-node=2", {"tasks": 6, "sockets_per_node": 2, "required_nodes": ("w[1-2],w2,x",)}),
    ("--hint=fast --threads-per-core=2", {"threads_per_core": 2}),
    ("-G 4 --gpus-per-task=2", {"tasks": 2, "tres_per_job": "gres/gpu:4", "tres_per_task": "gres/gpu=2"}),
    ("-N 1-2:1 --threads-per-core=2", {"nodes": "1-2:1", "tasks": 2, "threads_per_core": 2}),
    ("-w w1,w2 -n 1", {"nodes": "1", "tasks": 1, "required_nodes": ("w1,w2",)}),
    ("-N 2 --sockets-per-node=2", {"nodes": "2", "tasks": 4, "sockets_per_node": 2}),
    ("-G 2080ti:1", {"tres_per_job": "gres/gpu:2080ti:1"}),
    ("--gres=gpu:1k", {"tres_per_node": "gres/gpu:1024"}),
    ("--switches=1@soon", {"required_switches": 1}),
    ("--nice=5x", {"nice": 5}),
    ("-n ' +4'", {"tasks": 4}),
    ("--export=ALL", {}),
    ("--export=ALL,N=4", {"environment": (*ENVIRONMENT, "N=4")}),
    ("--export=LANG,N=4", {"environment": ("LANG=C", "N=4")}),
    ("--export=ALL,LANG=de", {"environment": ("PATH=/usr/bin:/bin", "LANG=de")}),
    ("--export=NONE", {"environment": ("PATH=/usr/local/bin:/usr/bin:/bin",)}),
    ("", {}),
    ("# only a comment", {}),
]


@pytest.mark.parametrize(("line", "fields"), TRANSLATIONS, ids=[line for line, _ in TRANSLATIONS])
def test_a_directive_sets_these_fields(line: str, fields: dict[str, Any]) -> None:
    assert translate(line) == fields


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--uid=0", "--uid=0"),
        ("--wait", "only to the sbatch command"),
        ("--signal=USR1@99999", "--signal=USR1@99999"),
        ("--signal=NOSIG", "one of HUP"),
        ("--mem=1G --mem-per-cpu=1G", "--mem, --mem-per-cpu, --mem-per-gpu are mutually exclusive"),
        ("-c 2 --cpus-per-gpu=2", "--cpus-per-task, --cpus-per-gpu are mutually exclusive"),
        ("--signal=X:USR1", "--signal=X:USR1"),
        ("--mem-per-gpu=much", "--mem-per-gpu=much"),
        ("--cpus-per-gpu=0", "--cpus-per-gpu=0"),
        ("--kill-on-invalid-dep=maybe", "must be yes or no"),
        ("--hint=fast", "must be one of compute_bound"),
        ("--hint=multithread,compute_bound", "multithread cannot stand before compute_bound"),
        ("--container=bundle", "absolute path of an OCI bundle"),
        ("--container-id=c", "use --container"),
        ("--switches=some", "must be an integer"),
        ("--time-min=0", "--time-min=0"),
        ("-n 0", "--ntasks=0"),
        ("-n 2k", "--ntasks=2k"),
        ("-c two", "--cpus-per-task=two"),
        ("--mem=1.5G", "--mem=1.5G"),
        ("--begin=coffee", "--begin=coffee"),
        ("--begin=1970-01-01", "must be a time from 1970 on"),
        ("--deadline=0001-01-01T00:00:00", "must be a time from 1970 on"),
        ("--requeue=expedite", "--requeue=expedite"),
        ("--exclusive=me", "--exclusive=me"),
        ("--gres=gpu:1 --gpus-per-node=2", "--gpus-per-node=2"),
        ("--gres=gpu:1 --gpus-per-node=", "mutually exclusive"),
        ("--hold=yes", "--hold takes no value"),
        ("--frobnicate", "no option --frobnicate"),
        ("--=5", "no option --"),
        ("-n 2 -- -c 2", "'-c' is not an option"),
        (":", "cannot begin with `:`"),
        ("--exclusive -s", "mutually exclusive"),
        ("-N 4-1", "the most nodes are fewer"),
        ("-N 2:3", "a list of numbers of nodes"),
        ("-m diagonal", "a layout of tasks"),
        ("--time=1:2:", "must be a time"),
        ("--time=9999999-0", "at most 24855 days"),
        ("--gres=help", "only makes sbatch print a list"),
        ("--mem=-1", "must be a size"),
        ("-n ٥", "must be an integer"),
        (" -n 2", "is not an option"),
        ("--par=main", "--par is ambiguous"),
        ("-y", "no option -y"),
        ("-J", "--job-name needs a value"),
        ('-J ""', "--job-name needs a value"),
        ('-J "open', "is not closed"),
        ("hetjob", "the options of one component"),
        ("-J sim stray", "'stray' is not an option"),
    ],
)
def test_an_untranslatable_directive_is_rejected_with_its_line(line: str, text: str) -> None:
    with pytest.raises(InvalidScript) as rejected:
        translate("-p main", line)
    assert "line 3 of the script" in str(rejected.value)
    assert text in str(rejected.value)


def test_an_option_without_its_effect_warns_with_its_line() -> None:
    script = "#!/bin/sh\n#SBATCH -n 2\n#SBATCH --comment=mine --mail-type=END --power=x\n"

    applied = apply(script, JobDescription(environment=ENVIRONMENT), now=NOW)

    assert [text.partition(" is ")[0] for text in applied.warnings] == [
        "line 3 of the script: --comment",
        "line 3 of the script: --power",
    ]


def test_the_request_takes_precedence_over_the_script() -> None:
    assert translate("-J script -p gpu -n 4", name="request", tasks=2) == {
        "name": "request",
        "partition": "gpu",
        "tasks": 2,
    }


def test_the_requests_memory_replaces_the_scripts_in_another_unit() -> None:
    assert translate("--mem-per-cpu=2G -c 2", memory_per_node=4096) == {"memory_per_node": 4096, "cpus_per_task": 2}


def test_tasks_and_nodes_of_the_request_alone_stay_as_they_are() -> None:
    assert translate("-t 5", nodes="4", tasks=2) == {"time_limit": 5, "nodes": "4", "tasks": 2}
    assert translate("-N 4", tasks=2) == {"nodes": "2", "tasks": 2}


def test_a_later_directive_wins_over_an_earlier_one() -> None:
    assert translate("-t 10 --gres=gpu:1", "-t 20 --gres=shard:1") == {
        "time_limit": 20,
        "tres_per_node": "gres/shard:1",
    }


def test_directives_after_the_first_command_are_ignored() -> None:
    script = "#!/bin/sh\n#SBATCH -n 2\n\n# a comment\n   # another\n#SBATCH -c 3\necho\n#SBATCH -N 4\n"
    found = parse(script)
    assert [(directive.line, directive.option.long) for directive in found] == [(2, "ntasks"), (6, "cpus-per-task")]


@pytest.mark.parametrize("line", ["##SBATCH -n 2", " #SBATCH -n 2", "#sbatch -n 2", "# SBATCH -n 2"])
def test_a_line_that_only_resembles_a_directive_is_a_comment(line: str) -> None:
    assert parse(f"#!/bin/sh\n{line}\n") == ()


def error_detail(script: str) -> str | None:
    """The error of a script; None for a valid one."""
    try:
        apply(script, JobDescription(environment=ENVIRONMENT), now=NOW)
    except InvalidScript as error:
        return str(error)
    return None


@given(st.text())
def test_any_script_is_parsed_or_rejected_with_a_line(script: str) -> None:
    reason = error_detail(script)
    assert reason is None or reason.startswith("line ")


@given(st.lists(st.text(st.characters(codec="ascii")).map(lambda text: f"#SBATCH {text}".replace("\n", " "))))
def test_any_directive_is_parsed_or_rejected_with_its_line(lines: list[str]) -> None:
    reason = error_detail("\n".join(["#!/bin/sh", *lines]))
    assert reason is None or 2 <= int(reason.split()[1]) <= len(lines) + 1


@given(st.sampled_from(sorted(LONG)), st.text(st.characters(codec="ascii"), max_size=12))
def test_every_option_accepts_or_rejects_any_value(option: str, value: str) -> None:
    quoted = "".join(f"\\{character}" for character in value if character != "\n")
    reason = error_detail(f"#!/bin/sh\n#SBATCH --{option}" + (f"={quoted}" if value else ""))
    assert reason is None or "line 2" in reason


@given(st.integers(1, 10**6))
def test_all_notations_of_a_time_limit_are_equal(minutes: int) -> None:
    days, rest = divmod(minutes, 1440)
    hours, left = divmod(rest, 60)
    for text in (f"{minutes}", f"{minutes}:00", f"{minutes // 60}:{left}:00", f"{days}-{hours}:{left}:00"):
        assert translate(f"-t {text}") == {"time_limit": minutes}


def test_every_short_option_has_a_long_name() -> None:
    assert all(LONG[option.long] is option for option in SHORT.values())


@pytest.mark.parametrize(
    "option",
    [
        *("cpu-freq=high", "gpu-bind=closest", "gpu-freq=low", "mem-bind=local", "tres-bind=gres/gpu:closest"),
        *("resv-ports", "acctg-freq=10", "profile=task", "delay-boot=5", "power=level"),
    ],
)
def test_an_option_without_effect_is_accepted_with_a_warning_that_names_it(option: str) -> None:
    job = JobDescription(environment=("A=b",))

    applied = apply(f"#!/bin/sh\n#SBATCH --{option}\n", job, now=NOW)

    assert applied.job.model_dump(exclude_none=True) == job.model_dump(exclude_none=True)
    (warning,) = applied.warnings
    assert warning.startswith(f"line 2 of the script: --{option.partition('=')[0]} is left out: ")


def test_flags_of_several_options_add_up_and_the_later_of_two_opposites_counts() -> None:
    script = "#!/bin/sh\n" + "".join(
        f"#SBATCH {line}\n"
        for line in (
            "--kill-on-invalid-dep=yes --spread-job",
            "--gres-flags=enforce-binding",
            "--kill-on-invalid-dep=no --gres-flags=disable-binding",
        )
    )

    applied = apply(script, JobDescription(environment=("A=b",)), now=NOW)

    assert applied.job.flags == ("SPREAD_JOB", "NO_KILL_INVALID_DEPENDENCY", "GRES_BINDING_DISABLED")


def test_a_request_to_end_on_an_invalid_dependency_leaves_the_scripts_other_flags() -> None:
    before = {"flags": ["SPREAD_JOB", "NO_KILL_INVALID_DEPENDENCY"]}

    added = with_flags(before, {"flags": ("KILL_INVALID_DEPENDENCY",)})

    assert added == {"flags": ("SPREAD_JOB", "KILL_INVALID_DEPENDENCY")}


def test_a_check_tells_every_problem_with_its_line_and_reason() -> None:
    script = "#!/bin/sh\n#SBATCH -n 0\n#SBATCH --frobnicate\n#SBATCH --comment=x -t 5\n#SBATCH --wait\ntrue\n"

    checked = check(script, now=NOW)

    assert [(problem.line, problem.reason.partition(":")[0]) for problem in checked.problems] == [
        (2, "--ntasks=0"),
        (3, "sbatch has no option --frobnicate"),
        (5, "--wait"),
    ]
    assert [directive.option.long for directive in checked.directives] == ["comment", "time"]
    assert [text.partition(" is ")[0] for text in checked.warnings] == ["line 4 of the script: --comment"]


def test_an_invalid_script_names_all_its_lines() -> None:
    with pytest.raises(InvalidScript) as rejected:
        translate("-n 0", "-t 5", "--par=main")

    assert [problem.line for problem in rejected.value.problems] == [2, 4]
    assert str(rejected.value) == "; ".join(map(str, rejected.value.problems))


@pytest.mark.parametrize("line", ["-p gpu", "-pgpu", "--partition=gpu", "--partit gpu", "-HJ sim -p gpu"])
def test_a_denied_option_is_a_problem_however_it_is_written(line: str) -> None:
    script = f"#!/bin/sh\n#SBATCH {line}\n"

    checked = check(script, now=NOW, denied={"partition"})

    assert [str(problem) for problem in checked.problems] == ["line 2 of the script: --partition is not allowed here"]
    assert "partition" not in checked.fields
    assert check(script, now=NOW).problems == ()


def test_a_deny_list_names_only_options_of_sbatch() -> None:
    check_denied({"partition", "time"})

    with pytest.raises(ValueError, match="no option --p, --tiem"):
        check_denied({"p", "tiem", "time"})


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("", "line 1 of the script: it must name an interpreter"),
        ("#SBATCH -n 2\n", "line 1 of the script: it must name an interpreter"),
        ("#!/bin/sh\ntrue\r\n", "line 2 of the script: it has a DOS line ending"),
        ("#!/bin/sh\n\ntrue\0\n", "line 3 of the script: it contains a NUL byte"),
    ],
)
def test_a_text_that_is_no_script_is_rejected_with_its_line(script: str, text: str) -> None:
    (problem,) = check(script, now=NOW).problems

    assert str(problem) == text
    assert problem.hint


def test_what_is_told_of_one_script_is_bounded() -> None:
    script = "#!/bin/sh\n" + f"#SBATCH --{'x' * 5000}\n" * 500 + "#SBATCH --comment=mine\n" * 500

    checked = check(script, now=NOW)

    assert len(checked.problems) == MAX_FINDINGS
    with pytest.raises(InvalidScript) as rejected:
        apply(script, JobDescription(environment=ENVIRONMENT), now=NOW)
    assert len(str(rejected.value)) < 10_000
    assert str(rejected.value).endswith("; and 90 more")


def test_a_line_of_two_megabytes_is_read() -> None:
    """A second. A word that is built anew at each character would take an hour, which the suite does not wait."""
    name = "a" * 2_000_000

    found = parse(f"#!/bin/sh\n#SBATCH --job-name={name}\n")

    assert [each.value for each in found] == [name]


def test_the_requests_further_fields_take_precedence_and_its_flags_add_up() -> None:
    script = "#!/bin/sh\n#SBATCH --prefer=small --spread-job --kill-on-invalid-dep=yes --cpus-per-gpu=2 --contiguous\n"
    further = FurtherFields(prefer="large", flags=("NO_KILL_INVALID_DEPENDENCY",), cpus_per_tres="gres/gpu:4")

    job = apply(script, JobDescription(environment=ENVIRONMENT), further, now=NOW).job

    assert (job.prefer, job.cpus_per_tres, job.contiguous) == ("large", "gres/gpu:4", True)
    assert job.flags == ("SPREAD_JOB", "NO_KILL_INVALID_DEPENDENCY")
