"""Translates `#PBS` and `#BSUB` lines as sbatch does: one kind of them, after `#SBATCH` lines, over which they win."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from clusterra_sbatch.getopt import Found, Table, TakesValue, read
from clusterra_sbatch.pbs_resources import resources
from clusterra_sbatch.problems import Problem
from clusterra_sbatch.words import BSUB, PBS, Malformed, Word, foreign_words

type Given = Mapping[str, str]
"""The last value of each option of sbatch so far, by its long name."""
type Setting = tuple[str, str | None]
"""An option of sbatch by its long name, and its value."""
type Translate = Callable[[str, Given], Iterator[Setting]]

UMASK = "umask"
"""The name of a setting for which sbatch has no option of its own."""


@dataclass(frozen=True)
class ForeignOption:
    """An option of another system, and what sbatch makes of it."""

    name: str
    takes_value: TakesValue
    translate: Translate = field(repr=False)


def settings(script: str, given: dict[str, str]) -> Iterator[tuple[int, Setting] | Problem]:
    """Yield the settings of the lines of another system in order, each with its line.

    `given` has the values of the script's `#SBATCH` lines. Each setting is added to it.
    """
    for prefix, table in ((BSUB, _BSUB), (PBS, _PBS)):
        found = list(foreign_words(script, prefix))
        if not found:
            continue
        yield from (each for each in found if isinstance(each, Problem))
        words = [each for each in found if isinstance(each, Word)]
        for option in read(_with_short_cwd(words) if prefix == BSUB else words, table):
            if isinstance(option, Problem):
                yield option
            else:
                yield from _translated(option, given)
        return


def _translated(found: Found[ForeignOption], given: dict[str, str]) -> Iterator[tuple[int, Setting] | Problem]:
    try:
        for name, value in found.option.translate(found.value or "", given):
            given[name] = value or ""
            yield found.line, (name, value)
    except Malformed as error:
        yield Problem(found.line, str(error), error.hint)


def _with_short_cwd(words: list[Word]) -> list[Word]:
    """sbatch takes `-cwd` for `-c` where an option is expected if each one before it has a value."""
    return [
        Word(word.line, "-c") if word.text == "-cwd" and not index % 2 else word for index, word in enumerate(words)
    ]


def _as(name: str) -> Translate:
    return lambda value, _given: iter([(name, value)])


def _flag(name: str) -> Translate:
    return lambda _value, _given: iter([(name, None)])


def _nothing(_value: str, _given: Given) -> Iterator[Setting]:
    return iter(())


def _variables(value: str, given: Given) -> Iterator[Setting]:
    yield "export", f"{given['export']},{value}" if "export" in given else value


def _mail(value: str, _given: Given) -> Iterator[Setting]:
    letters = value.lower()
    kinds = [kind for letter, kind in (("b", "BEGIN"), ("e", "END"), ("a", "FAIL")) if letter in letters]
    yield "mail-type", "NONE" if "n" in letters or not kinds else ",".join(kinds)


def _attributes(value: str, _given: Given) -> Iterator[Setting]:
    name, _, text = value.partition("=")
    if name.lower() == "umask":
        yield UMASK, text
    elif name.lower() == "depend":
        yield "dependency", text


def _hosts(value: str, _given: Given) -> Iterator[Setting]:
    yield "nodelist", value.replace(" ", ",")


def _memory(value: str, _given: Given) -> Iterator[Setting]:
    yield "mem-per-cpu", f"{value}K" if re.search(r"[0-9]\Z", value) else value


def _tasks(value: str, _given: Given) -> Iterator[Setting]:
    _, comma, most = value.partition(",")
    if comma and not most:
        raise Malformed(f"-n {value}: a number is missing after the comma")
    yield "ntasks", most if comma else value


def _table(
    command: str, rows: Mapping[str, tuple[str, TakesValue, Translate]], optional: str = ""
) -> Table[ForeignOption]:
    short = {letter: ForeignOption(f"-{letter}", takes, translate) for letter, (_, takes, translate) in rows.items()}
    # The value of one option is optional only after its long name.
    long = {
        name: ForeignOption(f"--{name}", "optional", _nothing) if name == optional else short[letter]
        for letter, (name, _, _) in rows.items()
        if name
    }
    return Table(command, long, short)


_BSUB = _table(
    "#BSUB",
    {
        "c": ("cwd", "required", _as("chdir")),
        "e": ("error_file", "required", _as("error")),
        "J": ("job_name", "required", _as("job-name")),
        "m": ("hostname", "required", _hosts),
        "M": ("memory_limit", "required", _memory),
        "n": ("", "required", _tasks),
        "o": ("output_file", "required", _as("output")),
        "q": ("queue_name", "required", _as("partition")),
        "W": ("time", "required", _as("time")),
        "x": ("exclusive", "none", _flag("exclusive")),
    },
)
_PBS = _table(
    "#PBS",
    {
        "a": ("start_time", "required", _as("begin")),
        "A": ("account", "required", _as("account")),
        "c": ("checkpoint", "required", _nothing),
        "C": ("working_dir", "required", _nothing),
        "d": ("", "required", _as("chdir")),
        "e": ("error", "required", _as("error")),
        "h": ("hold", "none", _flag("hold")),
        "I": ("interactive", "none", _nothing),
        "j": ("join", "required", _nothing),
        "J": ("job_array", "required", _as("array")),
        "k": ("keep", "required", _nothing),
        "l": ("resource_list", "required", resources),
        "m": ("mail_options", "required", _mail),
        "M": ("mail_user_list", "required", _as("mail-user")),
        "N": ("job_name", "required", _as("job-name")),
        "o": ("out", "required", _as("output")),
        "p": ("priority", "required", _as("nice")),
        "q": ("destination", "required", _as("partition")),
        "r": ("rerunable", "required", _nothing),
        "S": ("script_path", "required", _nothing),
        "t": ("array", "required", _as("array")),
        "u": ("running_user", "required", _nothing),
        "v": ("variable_list", "required", _variables),
        "V": ("all_env", "none", _nothing),
        "W": ("attributes", "required", _attributes),
        "w": ("", "required", _as("chdir")),
        "z": ("no_std", "none", _nothing),
    },
    optional="join",
)
