"""Lines are split and looked up as sbatch does it. Each expectation was measured on sbatch 26.05."""

from datetime import UTC, datetime
from typing import Any

import pytest
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_sbatch.applying import apply
from clusterra_sbatch.checking import check
from clusterra_sbatch.options import LONG
from clusterra_sbatch.parsing import Directive, parse, scan
from clusterra_sbatch.words import split
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)


def fields(lines: str) -> dict[str, Any]:
    """What the lines of a script set in an otherwise empty job."""
    job = apply(f"#!/bin/sh\n{lines}\ntrue\n", JobDescription(environment=("A=b",)), now=NOW).job
    return {name: value for name, value in job.model_dump(exclude_defaults=True).items() if name != "environment"}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("#SBATCH--time=5\n#SBATCH--job-name=x", {"time_limit": 5, "name": "x"}),
        ("#SBATCH\t\v\f\r-n 2", {"tasks": 2}),
        ("#SLURM -n 2", {"tasks": 2}),
        ("#SBATCH --time=5 \\\n#SBATCH -n 2", {"time_limit": 5, "tasks": 2}),
        ("#SBATCH --time\n#SBATCH 5 -n 2", {"time_limit": 5, "tasks": 2}),
        ('#SBATCH -n 2 "" -c 2', {"tasks": 2}),
        ("#SBATCH -n 2 HetJob -c 2", {"tasks": 2}),
        ("#SBATCH -n 2 --", {"tasks": 2}),
        (r'#SBATCH -J "a\"b c"', {"name": 'a"b c'}),
        (r"#SBATCH -J 'a\'b c'", {"name": "a'b c"}),
        (r"#SBATCH -J a\#b -n 2", {"name": "a#b", "tasks": 2}),
        ('#SBATCH -J "a#b" -n 2', {"name": "a#b", "tasks": 2}),
        ("#SBATCH -J a#b -n 2", {"name": "a"}),
        ('#SBATCH -J a"b c"d', {"name": "ab cd"}),
        (r"#SBATCH -J a\\b", {"name": r"a\b"}),
        ("\u00a0\n#SBATCH --time=6", {}),
        ("#SBATCH --ntasks-per-n=2", {"tasks_per_node": 2}),
        ("#SBATCH --tasks=2", {"tasks_per_node": 2}),
    ],
)
def test_lines_are_read_as_sbatch_reads_them(lines: str, expected: dict[str, Any]) -> None:
    assert fields(lines) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            "#PBS -l walltime=00:05:00\n#PBS -N x\n#PBS -l nodes=2:ppn=1",
            {"time_limit": 5, "name": "x", "nodes": "2", "tasks": 2},
        ),
        ("#PBS -l nodes=w1+w2:ppn=2", {"tasks": 2, "required_nodes": ("w1,w2",)}),
        ("#PBS -l nodes=1:ppn=4:gpus=2", {"nodes": "1", "tasks": 4, "tres_per_node": "gres/gpu:2"}),
        ("#PBS -l accelerator=true", {"tres_per_node": "gres/gpu:1"}),
        ("#PBS -l naccelerators=2", {"tres_per_node": "gres/gpu:2"}),
        (
            "#PBS -l select=2:ncpus=4:mpiprocs=2:mem=2gb",
            {
                "nodes": "2",
                "minimum_cpus_per_node": 4,
                "tasks_per_node": 2,
                "memory_per_node": 2048,
                "cpus_per_task": 2,
            },
        ),
        ("#PBS -lwalltime=5,nice=4,file=2gb", {"time_limit": 5, "nice": 4, "temporary_disk_per_node": 2048}),
        ("#PBS -j oe -k oe -r y -S /bin/bash -u x -V -z -c n -I", {}),
        (
            "#PBS -W depend=afterok:1 -p 10 -q main -h",
            {"dependency": "afterok:1", "nice": 10, "partition": "main", "hold": True},
        ),
        ("#SBATCH -t 9\n#PBS -l walltime=5", {"time_limit": 5}),
        ("#SBATCH -t 9 --ignore-pbs\n#PBS -l walltime=5", {"time_limit": 9}),
        ("true\n#PBS -l walltime=5", {"time_limit": 5}),
        ("true\n" * 101 + "#PBS -l walltime=5", {}),
        ("#BSUB -W 5 -n 2,4 -J x -q main", {"time_limit": 5, "tasks": 4, "name": "x", "partition": "main"}),
        ("#BSUB -M 2048", {"memory_per_cpu": 2}),
        ("#BSUB -cwd /tmp", {"current_working_directory": "/tmp"}),
        ("#BSUB -J x\n#PBS -N y", {"name": "x"}),
    ],
)
def test_lines_of_other_systems_are_translated_as_sbatch_translates_them(lines: str, expected: dict[str, Any]) -> None:
    assert fields(lines) == expected


@pytest.mark.parametrize(
    ("lines", "line", "reason"),
    [
        ("#PBS -Q", 2, "#PBS has no option -Q"),
        ("true\n#PBS foo", 3, "'foo' is not an option"),
        ("#BSUB -R rusage[mem=4]", 2, "#BSUB has no option -R"),
        ("#BSUB -n 2,", 2, "a number is missing"),
        ("#PBS -l walltime=", 2, "--time="),
        ("#PBS -l naccelerators=x", 2, "'x' must be a number"),
        ("#SBATCHX -n 2", 2, "'X' is not an option"),
    ],
)
def test_a_line_that_sbatch_refuses_is_a_problem_of_its_line(lines: str, line: int, reason: str) -> None:
    (problem,) = check(f"#!/bin/sh\n{lines}\n", now=NOW).problems

    assert problem.line == line
    assert reason in problem.reason


def test_variables_and_the_umask_of_other_systems_reach_the_environment() -> None:
    applied = apply(
        "#!/bin/sh\n#PBS -v A,N=1 -v M=2 -W umask=027\n", JobDescription(environment=("A=b", "B=c")), now=NOW
    )

    assert applied.job.environment == ("A=b", "N=1", "M=2", "SLURM_UMASK=027")


def test_no_time_limit_is_told_apart_from_none_given() -> None:
    job = JobDescription(environment=("A=b",))

    unlimited = apply("#!/bin/sh\n#SBATCH -t UNLIMITED\n", job, now=NOW)
    limited = apply("#!/bin/sh\n#SBATCH -t UNLIMITED -t 5\n", job, now=NOW)
    requested = apply("#!/bin/sh\n#SBATCH -t 0\n", job.model_copy(update={"time_limit": 3}), now=NOW)

    assert [each.unlimited for each in (unlimited, limited, requested)] == [True, False, False]
    assert [each.job.time_limit for each in (unlimited, limited, requested)] == [None, 5, 3]


@given(st.lists(st.text(st.characters(codec="ascii", exclude_characters="\0\n"), min_size=1), max_size=5))
def test_protected_words_are_read_back(words: list[str]) -> None:
    line = " ".join('"' + "".join(f"\\{each}" for each in word) + '"' for word in words)

    assert list(split(line)) == words


@given(st.sampled_from(sorted(LONG)), st.integers(1, 30))
def test_a_prefix_that_one_option_has_names_it(name: str, length: int) -> None:
    prefix = name[:length]
    meant = {id(option) for known, option in LONG.items() if known.startswith(prefix)}

    found = [each for each in scan(f"#!/bin/sh\n#SBATCH --{prefix} 1") if isinstance(each, Directive)]

    if prefix in LONG or len(meant) == 1:
        assert found[0].option is LONG.get(prefix, LONG[name])
    else:
        assert found == []


def test_a_line_of_another_system_of_a_megabyte_is_read() -> None:
    names = "+".join(f"w{number}" for number in range(150_000))

    (found,) = parse(f"#!/bin/sh\n#PBS -l nodes={names}\n")

    assert found.value == names.replace("+", ",")
