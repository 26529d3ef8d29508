"""Makes the job of a submit from a script and the options of a command line.

Options become `#SBATCH` lines behind the script's own, of which the later ones win, as sbatch's command line wins over
its script. So the gateway reads and checks them in one place, and the script of the job says what it was submitted
with. Of options that exclude each other, such as `--mem` and `--mem-per-cpu`, a script may have one: these become
fields of the job, which replace the script's whole group.
"""

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from clusterra.job_environment import DEFAULT_PATH

from clusterra_cli.getopt import Given
from clusterra_cli.sbatch_options import SBATCH
from clusterra_cli.sizes import read_mebibytes
from clusterra_cli.usage import WrongUsage

SECRETS = frozenset({"CLUSTERRA_TOKEN"})
"""Variables that go to a job only where `--export` names them: everybody in the job could act as the person."""

type Environment = Mapping[str, str]
type Fields = dict[str, object]

_OF_COMMAND = frozenset({"clusters", "parsable", "quiet", "verbose", "wait", "wrap"})
"""Options of sbatch that concern its command, and not the job."""
PREFIXES = ("#SBATCH", "#SLURM")
_FOREIGN = ("#PBS", "#BSUB")
_BLANKS = " \t\v\f\r"
_WITHOUT_VALUE = "".join(letter for letter, takes in SBATCH.values() if letter and takes == "none")
_NAME = re.compile(rf"(?:\s|^#SBATCH|^#SLURM)(--j|-[{_WITHOUT_VALUE}]*J)")
"""A `#SBATCH` line that names the job, however the option is shortened."""


@dataclass(frozen=True)
class JobScript:
    """A script with the options of the command line, the other fields of the job, and what is worth a warning."""

    script: str
    job: Fields
    warnings: tuple[str, ...] = ()
    added: range = range(0)
    """The numbers of those lines, counted from 1, that are options of the command line."""

    def placed(self, text: str) -> str:
        """A text of the gateway, in which lines have the numbers of the caller's own script."""
        return _LINE.sub(self._place, text) if self.added else text

    def _place(self, found: re.Match[str]) -> str:
        number = int(found[1])
        if number in self.added:
            return "the command line"
        return f"line {number - len(self.added) if number >= self.added.stop else number} of the script"


_LINE = re.compile(r"\bline ([0-9]{1,9}) of the script\b", re.ASCII)


def from_script(
    text: str,
    words: Sequence[str],
    options: Sequence[Given],
    environment: Environment,
    exported: Sequence[Given] = (),
) -> JobScript:
    """The job of a script. `words` are its name and its arguments, `environment` is that of the command.

    `exported` are `--export` options of the script, which give way to those of the command line.
    Raises WrongUsage for a value that no `#SBATCH` line can carry.
    """
    fields, lines = _fields_and_lines(options)
    base = words[0].rpartition("/")[2]
    if base not in ("", "-") and not any(each.name == "job-name" for each in options) and not _names_itself(text):
        lines.append(_line(Given("job-name", base)))
    fields["environment"] = _environment([*exported, *options], environment)
    if len(words) > 1:
        fields["argv"] = list(words)
    lost = lines and any(line.startswith(_FOREIGN) for line in text.split("\n"))
    warnings = ("#PBS and #BSUB lines of the script win over options of the command line",) if lost else ()
    at = _place_of_options(text)
    return JobScript(_inserted(text, lines, at), fields, warnings, range(at + 1, at + 1 + len(lines)))


def from_command(command: Sequence[str], options: Sequence[Given], environment: Environment) -> JobScript:
    """The job of one command with its arguments, which no shell interprets."""
    # In quotes, the first word is no assignment and no word of the shell's own, such as `if`.
    name = "'" + command[0].replace("'", "'\"'\"'") + "'"
    line = " ".join([name, *map(shlex.quote, command[1:])])
    return from_script(f"#!/bin/sh\n{line}\n", [command[0]], options, environment)


def from_wrapped(text: str, options: Sequence[Given], environment: Environment) -> JobScript:
    """The job of a line for the shell, as of `sbatch --wrap`."""
    return from_script(f"#!/bin/sh\n{text}\n", ["wrap"], options, environment)


def _names_itself(text: str) -> bool:
    return any(line.startswith(PREFIXES) and _NAME.search(line) for line in head(text))


def head(text: str) -> list[str]:
    """The lines before the first command, where `#SBATCH` lines count."""
    found: list[str] = []
    for line in text.split("\n"):
        if line.lstrip(_BLANKS) and not line.lstrip(_BLANKS).startswith("#"):
            break
        found.append(line)
    return found


def _place_of_options(text: str) -> int:
    """The number of the line behind which options go: the last `#SBATCH` line, or else the first line."""
    own = [number for number, line in enumerate(head(text), start=1) if line.startswith(PREFIXES)]
    return own[-1] if own else 1


def _inserted(text: str, lines: Sequence[str], at: int) -> str:
    """The script with these lines behind its line of this number."""
    if not lines:
        return text
    before = text.split("\n")
    return "\n".join([*before[:at], *lines, *(before[at:] or [""])])


def _fields_and_lines(options: Sequence[Given]) -> tuple[Fields, list[str]]:
    fields: Fields = {}
    lines: list[str] = []
    for each in options:
        if each.name == "confirmed-usd-per-hour":
            fields["confirmed_usd_per_hour"] = dollars(each.value or "")
        elif each.name not in SBATCH or each.name in _OF_COMMAND:
            continue
        elif (field := _grouped(each)) is not None:
            for group in _GROUPS:
                if field[0] in group:
                    fields = {name: value for name, value in fields.items() if name not in group}
            fields[field[0]] = field[1]
        else:
            lines.append(_line(each))
    return fields, lines


def dollars(text: str) -> float:
    """An amount in USD. Raises WrongUsage."""
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if not math.isfinite(amount):
        raise WrongUsage("--confirmed-usd-per-hour must be an amount, such as 12.5")
    return amount


_GROUPS = (
    frozenset({"memory_per_node", "memory_per_cpu", "memory_per_tres"}),
    frozenset({"cpus_per_task", "cpus_per_tres"}),
)


def _positive(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,8}", text):
        raise ValueError(text)
    return int(text)


_FIELDS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "mem": ("memory_per_node", read_mebibytes),
    "mem-per-cpu": ("memory_per_cpu", read_mebibytes),
    "mem-per-gpu": ("memory_per_tres", lambda text: f"gres/gpu:{read_mebibytes(text)}"),
    "cpus-per-task": ("cpus_per_task", _positive),
    "cpus-per-gpu": ("cpus_per_tres", lambda text: f"gres/gpu:{_positive(text)}"),
}


def _grouped(given: Given) -> tuple[str, object] | None:
    """The field of an option of a group; None for other options, and for a value that the gateway is to refuse."""
    if given.name not in _FIELDS:
        return None
    field, read = _FIELDS[given.name]
    try:
        return field, read(given.value or "")
    except ValueError:
        return None


def _line(given: Given) -> str:
    """The `#SBATCH` line of an option. Raises WrongUsage."""
    if given.value is None:
        return f"#SBATCH --{given.name}"
    if any(character in given.value for character in "\n\r\0"):
        raise WrongUsage(f"the value of --{given.name} has a line end")
    word = f"--{given.name}={given.value}"
    if re.search(r"[\s\"'#\\]", word):
        quoted = re.sub(r'(["\\])', r"\\\1", word)
        word = f'"{quoted}"'
    return f"#SBATCH {word}"


def _environment(options: Sequence[Given], local: Environment) -> list[str]:
    """The variables that the job is given: those of here that `--export` names, and PATH.

    The gateway applies `--export` itself, and so sets its `NAME=VALUE` items.
    """
    exported = next((each.value or "" for each in reversed(options) if each.name == "export"), "")
    names = [item.strip("'\"") for item in exported.split(",")]
    if any(name.upper() == "ALL" for name in names):
        kept = {name: value for name, value in local.items() if name not in SECRETS or name in names}
        return [f"{name}={value}" for name, value in kept.items()] or [f"PATH={DEFAULT_PATH}"]
    wanted = {"PATH": DEFAULT_PATH} | {name: local[name] for name in names if name in local}
    return [f"{name}={value}" for name, value in wanted.items()]
