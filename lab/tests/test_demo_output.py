"""The demo reads what a job printed, and leaves out what Slurm itself wrote into the same file."""

from clusterra_lab.demo.scenario import read_output

HEAD = "started=1795365510.5 uid=20001 gid=20001 node=general-xs-nen7o\n"
TAIL = "ended=1795365513.5\n"


def test_lines_of_slurm_itself_are_left_out() -> None:
    hung = "[2026-11-22T16:25:16.058] error: Prolog hung on node general-xs-nen7o\n"

    output = read_output(hung + HEAD + "task 3: 9\n" + hung + TAIL + hung)

    assert output is not None
    assert output.lines == ("task 3: 9",)


def test_a_jobs_own_lines_are_kept() -> None:
    output = read_output(HEAD + "[error] mine\ntask 3: 9\n" + TAIL)

    assert output is not None
    assert output.lines == ("[error] mine", "task 3: 9")


def test_an_unfinished_or_restarted_run_has_no_output() -> None:
    assert read_output(HEAD + "task 3: 9\n") is None
    assert read_output("") is None
