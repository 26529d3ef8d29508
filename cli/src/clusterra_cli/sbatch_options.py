"""Reads a command line as sbatch does: its options up to the first other word, which is the script or the command.

`test_sbatch_options.py` compares the names with those of `clusterra_sbatch.options`. What an option means, and whether
it may be given, the gateway decides.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from clusterra_cli.usage import WrongUsage

type TakesValue = Literal["none", "required", "optional"]

_REQUIRED = (
    "account:A acctg-freq array:a autocomplete batch bb bbf begin:b chdir:D cluster cluster-constraint clusters:M"
    " comment constraint:C container container-id container-type context core-spec:S cores-per-socket cpu-freq"
    " cpus-per-gpu cpus-per-task:c deadline delay-boot dependency:d distribution:m error:e exclude:x export export-file"
    " extra extra-node-info:B gid gpu-bind gpu-freq gpus:G gpus-per-node gpus-per-socket gpus-per-task gres gres-flags"
    " hint input:i job-name:J kill-on-invalid-dep licenses:L mail-type mail-user mcs-label mem mem-bind mem-per-cpu"
    " mem-per-gpu mem-update mincpus network nodefile:F nodelist:w nodes:N ntasks:n ntasks-per-core ntasks-per-gpu"
    " ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode output:o partition:p power prefer priority profile"
    " qos:q reservation resources segment signal sockets-per-node switches tasks-per-node thread-spec"
    " threads-per-core time:t time-min tmp tres-bind tres-per-task uid wait-all-nodes wckey wrap"
)
_OPTIONAL = "exclusive nice no-kill:k oom-kill-step propagate requeue resv-ports"
_NONE = (
    "consolidate-segments contiguous external get-user-env help:h hold:H ignore-pbs no-requeue overcommit:O"
    " oversubscribe:s parsable quiet:Q reboot spread-job spread-segments stepmgr test-only usage use-min-nodes"
    " verbose:v version:V wait:W"
)


def _named(names: str, takes_value: TakesValue) -> dict[str, tuple[str, TakesValue]]:
    return {long: (short, takes_value) for long, _, short in (name.partition(":") for name in names.split())}


SBATCH: Mapping[str, tuple[str, TakesValue]] = (
    _named(_REQUIRED, "required") | _named(_OPTIONAL, "optional") | _named(_NONE, "none")
)
"""sbatch's options by their long names: the letter, if there is one, and whether a value follows."""
OWN: Mapping[str, tuple[str, TakesValue]] = _named("confirmed-usd-per-hour key url", "required") | _named(
    "dry-run estimate follow:f json", "none"
)
"""The options that sbatch does not have."""
_SAME = {"cluster": "clusters", "tasks-per-node": "ntasks-per-node", "test-only": "estimate"}
"""Names of the same option."""
_ALL = {**SBATCH, **OWN}
_BY_LETTER = {short: long for long, (short, _) in _ALL.items() if short}


@dataclass(frozen=True)
class Given:
    """An option by its long name, and its value."""

    name: str
    value: str | None = None


def read(arguments: Sequence[str]) -> tuple[list[Given], list[str]]:
    """The options before the first other word, and the words from there on. Raises WrongUsage."""
    given: list[Given] = []
    words = list(arguments)
    while words:
        word = words[0]
        if word == "--":
            return given, words[1:]
        if not word.startswith("-") or word == "-":
            break
        del words[0]
        found = [_long(word[2:])] if word.startswith("--") else _short(word[1:])
        last = found[-1]
        if last.value is None and _ALL[last.name][1] == "required":
            if not words:
                raise WrongUsage(f"--{last.name} needs a value")
            found[-1] = Given(last.name, words.pop(0))
        given += found
    return [Given(_SAME.get(each.name, each.name), each.value) for each in given], words


def _long(text: str) -> Given:
    name, equals, value = text.partition("=")
    long = _whole_name(name)
    if equals and _ALL[long][1] == "none":
        raise WrongUsage(f"--{long} takes no value")
    return Given(long, value if equals else None)


def _whole_name(name: str) -> str:
    """The long name that this is, or that alone begins so: of sbatch's names only, because others may be added."""
    if name in _ALL:
        return name
    found = sorted({_SAME.get(long, long) for long in SBATCH if long.startswith(name)}) if name else []
    if len(found) == 1:
        return found[0]
    if found:
        raise WrongUsage(f"--{name} is ambiguous: {', '.join(f'--{each}' for each in found)}")
    near = difflib.get_close_matches(name[:60].lower(), _ALL, 1)
    raise WrongUsage(f"there is no option --{name}", f"did you mean --{near[0]}?" if near else "")


def _short(letters: str) -> list[Given]:
    found: list[Given] = []
    while letters:
        long = _BY_LETTER.get(letters[0])
        if long is None:
            raise WrongUsage(f"there is no option -{letters[0]}")
        letters = letters[1:]
        if _ALL[long][1] != "none":
            found.append(Given(long, letters or None))
            break
        found.append(Given(long))
    return found
