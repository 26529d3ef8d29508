"""Command lines are read as GNU getopt reads them."""

import pytest
from clusterra_cli.getopt import Options, options, split
from clusterra_cli.slurm_commands import sacct, sbatch, scancel, scontrol, sinfo, squeue
from clusterra_cli.slurm_commands.failures import CommandFailed
from clusterra_cli.slurm_commands.terminal.command_lines import read

KNOWN = options(
    "squeue", none="all:a noheader:h", required="user:u states:t state start format:o", same={"state": "states"}
)


@pytest.mark.parametrize(
    ("line", "given", "others"),
    [
        ("-hu ada", [("noheader", None), ("user", "ada")], ()),
        ("-uada -h", [("user", "ada"), ("noheader", None)], ()),
        ("--user=ada 5 --noh", [("user", "ada"), ("noheader", None)], ("5",)),
        ("--sta PD", None, ()),
        ("--state=PD", [("states", "PD")], ()),
        ("-t PD -- -h", [("states", "PD")], ("-h",)),
        ("- -a", [("all", None)], ("-",)),
        ("-o -h", [("format", "-h")], ()),
    ],
)
def test_options_are_bundled_attached_shortened_and_anywhere(
    line: str, given: list[tuple[str, str | None]] | None, others: tuple[str, ...]
) -> None:
    if given is None:
        with pytest.raises(CommandFailed, match="'--sta' is ambiguous; possibilities: '--states' '--state' '--start'"):
            read(KNOWN, line.split())
        return

    words = read(KNOWN, line.split())

    assert ([(each.name, each.value) for each in words.options], words.others) == (given, others)


def test_options_end_at_the_first_word_where_a_command_has_arguments_of_its_own() -> None:
    words = read(KNOWN, ["-a", "script.sh", "-h", "--unknown"], first_word_ends=True)

    assert [each.name for each in words.options] == ["all"]
    assert words.others == ("script.sh", "-h", "--unknown")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--foo", "squeue: unrecognized option '--foo'"),
        ("-y", "squeue: invalid option -- 'y'"),
        ("-u", "squeue: option requires an argument -- 'u'"),
        ("--user", "squeue: option '--user' requires an argument"),
        ("--all=1", "squeue: option '--all' doesn't allow an argument"),
    ],
)
def test_what_getopt_refuses_is_refused_in_its_words(line: str, told: str) -> None:
    with pytest.raises(CommandFailed) as failed:
        read(KNOWN, line.split())

    assert str(failed.value) == f'{told}\nTry "squeue --help" for more information'


@pytest.mark.parametrize(
    ("known", "line"),
    [
        (squeue.OPTIONS, "--noheader -o %i -t all -p x -u ada"),
        (squeue.OPTIONS, "-a -o x -j 5 --job 1,2,3 --only-job-state"),
        (squeue.OPTIONS, "--user=ada --format=%i --state=all"),
        (squeue.OPTIONS, "--me -M main --name n -r"),
        (sacct.OPTIONS, "-X --parsable2 --clusters all --noheader --format=JobIdRaw,State --starttime now --name x"),
        (sacct.OPTIONS, "-o JobID,State --parsable2 -j 12 -j 13"),
        (sacct.OPTIONS, "-nu ada -o Account%256"),
        (sacct.OPTIONS, "-X --noheader --format=jobid,state%20 --job 1,2"),
        (scancel.OPTIONS, "5 --signal USR2"),
        (scancel.OPTIONS, "1 2 12_3 --clusters=all"),
        (scancel.OPTIONS, "-s TERM -b -f --me -u ada -p x --name n -t PD"),
        (scontrol.OPTIONS, "-do show job 5"),
        (scontrol.OPTIONS, "show job -o 5"),
        (sinfo.OPTIONS, "-a -o %P"),
        (sbatch.OPTIONS, "--parsable --job-name x --export=ALL --comment y -A a -p p -D /w --ntasks=1 --wrap=true"),
        (sbatch.OPTIONS, "--wait --parsable --job-name R --ntasks 1 --gres gpu:1 --mem 1M run.sh -x --flag"),
    ],
)
def test_the_command_lines_of_known_programs_are_read(known: Options, line: str) -> None:
    read(known, line.split(), first_word_ends=known is sbatch.OPTIONS)


def test_commas_in_brackets_do_not_separate() -> None:
    assert split("12_[3,5-7],13, 14") == ("12_[3,5-7]", "13", "14")
