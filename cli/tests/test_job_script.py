"""The job of a script and a command line, as `clusterra_sbatch` reads it, which the proxy uses."""

import subprocess
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from clusterra.job_environment import DEFAULT_PATH
from clusterra_cli import job_script
from clusterra_cli.getopt import Given
from clusterra_cli.job_script import JobScript, dollars, from_script
from clusterra_cli.sbatch_options import read
from clusterra_cli.usage import WrongUsage
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_sbatch.applying import apply
from clusterra_sbatch.parsing import parse
from hypothesis import given
from hypothesis import strategies as st

SCRIPT = "#!/bin/bash\n#SBATCH --time=10\n#SBATCH --mem=1G\n\necho $1\n#SBATCH --time=99\n"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATH = f"PATH={DEFAULT_PATH}"


def made(line: str, script: str = SCRIPT, **environment: str) -> JobScript:
    options, words = read(line.split())
    return job_script.from_script(script, words, options, environment)


def applied(line: str, script: str = SCRIPT, **environment: str) -> Any:
    job = made(line, script, **environment)
    return apply(job.script, JobDescription.model_validate(job.job), now=NOW).job


def test_options_win_over_those_of_the_script() -> None:
    job = applied("--time=20 -n 3 job.sh")

    assert (job.time_limit, job.tasks, job.memory_per_node) == (20, 3, 1024)


def test_of_options_that_exclude_each_other_the_one_of_the_command_line_counts() -> None:
    job = applied("--mem-per-cpu=1500K job.sh")

    assert (job.memory_per_cpu, job.memory_per_node) == (2, None)


def test_of_two_on_the_command_line_the_later_counts() -> None:
    assert made("--mem=1G --mem-per-cpu=2G job.sh").job["memory_per_cpu"] == 2048
    assert "memory_per_node" not in made("--mem=1G --mem-per-cpu=2G job.sh").job


def test_a_value_that_is_none_stands_in_the_script_for_the_gateway_to_refuse() -> None:
    assert "#SBATCH --mem=much" in made("--mem=much job.sh").script


@pytest.mark.parametrize(
    ("script", "line", "name"),
    [
        (SCRIPT, "/home/ada/fit.sh", "fit.sh"),
        (SCRIPT, "-J mine fit.sh", "mine"),
        ("#!/bin/sh\n#SBATCH -J own\ntrue\n", "fit.sh", "own"),
        ("#!/bin/sh\n#SBATCH --job-name=own\ntrue\n", "fit.sh", "own"),
        ("#!/bin/sh\n#SBATCH --job=own\ntrue\n", "fit.sh", "own"),
        ("#!/bin/sh\n#SBATCH -HJ own\ntrue\n", "-J mine fit.sh", "mine"),
        (SCRIPT, "-", "job"),
    ],
)
def test_a_job_has_the_name_of_its_script(script: str, line: str, name: str) -> None:
    assert applied(line, script).name == name


def test_lines_of_the_script_keep_their_numbers() -> None:
    numbers = {each.option.long: each.line for each in parse(made("-n2 job.sh").script)}

    assert (numbers["time"], numbers["mem"], numbers["ntasks"]) == (2, 3, 4)


def test_the_rest_of_the_script_is_unchanged() -> None:
    added = [line for line in made("-n2 job.sh").script.split("\n") if line not in SCRIPT.split("\n")]
    script = made("-n2 job.sh").script

    assert [line for line in script.split("\n") if line not in added] == SCRIPT.split("\n")


def test_arguments_are_those_of_the_job() -> None:
    assert made("job.sh one --two").job["argv"] == ["job.sh", "one", "--two"]
    assert "argv" not in made("job.sh").job


@pytest.mark.parametrize(
    ("line", "environment"),
    [
        ("job.sh", [PATH]),
        ("--export=A,B=2 job.sh", [PATH, "A=1"]),
        ("--export=NONE job.sh", [PATH]),
        ("--export=ALL job.sh", ["A=1", "PATH=/opt/bin"]),
        ("--export=ALL,B=2 job.sh", ["A=1", "PATH=/opt/bin"]),
        ("--export=PATH job.sh", ["PATH=/opt/bin"]),
    ],
)
def test_a_job_has_no_variables_of_here_but_those_that_are_exported(line: str, environment: list[str]) -> None:
    assert made(line, A="1", PATH="/opt/bin").job["environment"] == environment


def test_lines_of_other_systems_win_and_that_is_told() -> None:
    script = "#!/bin/sh\n#PBS -l walltime=1:00:00\ntrue\n"

    assert made("--time=5 job.sh", script).warnings
    assert not made("job.sh", SCRIPT).warnings


@given(value=st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), min_size=1, max_size=40))
def test_values_arrive_as_they_are(value: str) -> None:
    options, words = read([f"--comment={value}", "job.sh"])
    script = job_script.from_script(SCRIPT, words, options, {}).script

    assert [each.value for each in parse(script) if each.option.long == "comment"] == [value]
    assert [each.value for each in parse(script) if each.option.long == "job-name"] == ["job.sh"]


@pytest.mark.parametrize("value", ["5\n#SBATCH --uid=0", "5\r", "5\0"])
def test_a_value_makes_no_second_line(value: str) -> None:
    options, words = read([f"--comment={value}", "job.sh"])

    with pytest.raises(WrongUsage, match="line end"):
        job_script.from_script(SCRIPT, words, options, {})


@given(arguments=st.lists(st.text(st.characters(codec="ascii", min_codepoint=1), max_size=20), max_size=4))
def test_no_shell_interprets_a_command(arguments: list[str]) -> None:
    command = ["printf", r"%s\0", *arguments, "end"]
    script = job_script.from_command(command, [], {}).script

    ran = subprocess.run(["sh"], input=script.encode(), stdout=subprocess.PIPE, check=True)

    assert ran.stdout.decode().split("\0")[:-1] == [*arguments, "end"]


@pytest.mark.parametrize("word", ["A=1", "if", "{", "!", "it's", "~", "$HOME", "a b", "#"])
def test_the_name_of_a_command_is_no_word_of_the_shell(word: str) -> None:
    script = job_script.from_command([word, "x"], [], {}).script

    ran = subprocess.run(["sh"], input=script.encode(), stderr=subprocess.PIPE, check=False)

    assert ran.returncode == 127
    assert f"{word}: not found" in ran.stderr.decode() or f"{word}: command not found" in ran.stderr.decode()


def test_a_command_gives_the_job_its_name() -> None:
    job = job_script.from_command(["/usr/bin/hostname", "-f"], [], {})

    assert parse(job.script)[0].value == "hostname"
    assert "argv" not in job.job


def test_a_wrapped_line_is_for_the_shell() -> None:
    assert job_script.from_wrapped("echo a | wc", [], {}).script.endswith("\necho a | wc\n")


@pytest.mark.parametrize(("exported", "sent"), [("ALL", False), ("NONE", False), ("ALL,CLUSTERRA_TOKEN", True)])
def test_the_token_goes_to_a_job_only_by_its_name(exported: str, sent: bool) -> None:
    local = {"CLUSTERRA_TOKEN": "secret", "A": "1"}

    job = from_script("#!/bin/sh\n", ["job.sh"], [Given("export", exported)], local)

    assert ("CLUSTERRA_TOKEN=secret" in cast(list[str], job.job["environment"])) == sent


@pytest.mark.parametrize("text", ["inf", "nan", "-", "1e999"])
def test_an_amount_is_a_number(text: str) -> None:
    with pytest.raises(WrongUsage, match="amount"):
        dollars(text)
