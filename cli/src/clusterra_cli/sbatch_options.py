"""Reads a command line as sbatch does: its options up to the first other word, which is the script or the command.

`test_sbatch_options.py` compares the names with those of `clusterra_sbatch.options`. What an option means, and whether
it may be given, the gateway decides.
"""

import difflib
from collections.abc import Mapping, Sequence

from clusterra_cli import getopt
from clusterra_cli.getopt import Given, Options, TakesValue, WrongOption
from clusterra_cli.usage import WrongUsage

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
# Own options are never shortened: sbatch may get others that begin so.
_KNOWN = Options(
    "sbatch",
    {name: takes for name, (_, takes) in _ALL.items()},
    {short: name for name, (short, _) in _ALL.items() if short},
    _SAME,
    whole=frozenset(OWN),
)


def read(arguments: Sequence[str]) -> tuple[list[Given], list[str]]:
    """The options before the first other word, and the words from there on. Raises WrongUsage."""
    try:
        words = getopt.read(_KNOWN, arguments, first_word_ends=True)
    except WrongOption as wrong:
        near = difflib.get_close_matches(wrong.name[:60].lower(), _ALL, 1) if wrong.name else []
        raise WrongUsage(str(wrong), f"did you mean --{near[0]}?" if near else "") from None
    return list(words.options), list(words.others)
