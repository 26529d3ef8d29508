"""The command line is read as sbatch reads it."""

import pytest
from clusterra_cli.getopt import Given
from clusterra_cli.sbatch_options import OWN, SBATCH, read
from clusterra_cli.usage import WrongUsage
from clusterra_sbatch.options import LONG, SHORT


def test_the_options_are_those_of_sbatch() -> None:
    told = {name: (short, takes_value) for name, (short, takes_value) in SBATCH.items()}

    known = {name: (option.short if option.long == name else "", option.takes_value) for name, option in LONG.items()}

    assert told == known
    assert {short: name for name, (short, _) in SBATCH.items() if short} == {
        short: option.long for short, option in SHORT.items()
    }


def test_own_options_are_none_of_sbatch() -> None:
    letters = {short for short, _ in OWN.values() if short}

    assert not OWN.keys() & SBATCH.keys()
    assert not letters & SHORT.keys()


@pytest.mark.parametrize(
    ("line", "options", "rest"),
    [
        ("job.sh", [], ["job.sh"]),
        ("-N2 job.sh -n 4", [("nodes", "2")], ["job.sh", "-n", "4"]),
        ("-N 2 --time=1:00 job.sh", [("nodes", "2"), ("time", "1:00")], ["job.sh"]),
        ("--time 1:00 --json job.sh", [("time", "1:00"), ("json", None)], ["job.sh"]),
        ("-HWn4 job.sh", [("hold", None), ("wait", None), ("ntasks", "4")], ["job.sh"]),
        ("--exclusive job.sh", [("exclusive", None)], ["job.sh"]),
        ("--exclusive=user job.sh", [("exclusive", "user")], ["job.sh"]),
        ("-k job.sh", [("no-kill", None)], ["job.sh"]),
        ("--cpus-per-t=3 -- --odd-name.sh", [("cpus-per-task", "3")], ["--odd-name.sh"]),
        ("--test-only -", [("estimate", None)], ["-"]),
        ("-M other job.sh", [("clusters", "other")], ["job.sh"]),
        ("--cluster=other job.sh", [("clusters", "other")], ["job.sh"]),
        ("--mem= job.sh", [("mem", "")], ["job.sh"]),
        ("", [], []),
    ],
)
def test_options_end_at_the_script(line: str, options: list[tuple[str, str | None]], rest: list[str]) -> None:
    assert read(line.split()) == ([Given(*each) for each in options], rest)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--mem-per", "ambiguous"),
        ("--cpus", "ambiguous"),
        ("--clust", "ambiguous"),
        ("--tiem=5 job.sh", "unrecognized option '--tiem=5'"),
        ("-y job.sh", "invalid option -- 'y'"),
        ("--hold=yes job.sh", "doesn't allow an argument"),
        ("job.sh --time", None),
        ("--time", "requires an argument"),
    ],
)
def test_a_wrong_option_is_named(line: str, said: str | None) -> None:
    if said is None:
        assert read(line.split())[1] == line.split()
        return

    with pytest.raises(WrongUsage, match=said):
        read(line.split())


def test_a_misspelt_option_has_a_hint() -> None:
    with pytest.raises(WrongUsage) as raised:
        read(["--tiem=5"])

    assert raised.value.hint == "did you mean --time?"
