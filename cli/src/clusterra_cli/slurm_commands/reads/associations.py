"""The caller's own accounts, as `sacctmgr` and `sshare` print them. Programs read them before they submit."""

import sys
from collections.abc import Callable, Mapping, Sequence

from clusterra_cli.getopt import Words, split
from clusterra_cli.slurm_commands.failures import CommandFailed, Refused
from clusterra_cli.slurm_commands.gateway import Gateway
from clusterra_cli.slurm_commands.notation.sized_tables import FIELD, SizedColumn, parsable_lines, sized_lines
from clusterra_cli.slurm_commands.records import Record, objects, text

FIELDS: Mapping[str, Callable[[Record], str]] = {
    "Account": lambda record: text(record, "account"),
    "User": lambda record: text(record, "user"),
    "Cluster": lambda record: text(record, "cluster"),
    "Partition": lambda record: text(record, "partition"),
}
"""The fields that the gateway knows."""


def own(gateway: Gateway) -> tuple[Record, ...]:
    """The caller's associations. Raises Refused."""
    return tuple(each for each in objects(gateway.slurm("slurmdb/associations/"), "associations") if text(each, "user"))


def columns(command: str, formats: Sequence[str], widths: Mapping[str, int]) -> list[SizedColumn]:
    """The columns of `format=`, whose names may be shortened. Raises CommandFailed for a field that is not known."""
    found = []
    for item in (each for form in formats for each in split(form)):
        given = FIELD.fullmatch(item)
        name = given and next((each for each in FIELDS if each.lower().startswith(given[1].lower())), None)
        if not given or not name:
            raise CommandFailed(f"{command}: error: field {item!r} is not known over HTTP")
        found.append(SizedColumn(name, int(given[2]) if given[2] else widths[name]))
    return found


def print_own(command: str, words: Words, shown: Sequence[SizedColumn], keep: Callable[[Record], bool]) -> None:
    """Print those of the caller's associations that count. Raises CommandFailed."""
    try:
        records = [each for each in own(Gateway()) if keep(each)]
    except Refused as error:
        raise CommandFailed(f"{command}: error: {error}") from None
    rows = [[FIELDS[each.name](record) for each in shown] for record in records]
    header = not words.has("noheader")
    if words.has("parsable", "parsable2"):
        ending = "|" if not words.has("parsable2") else ""
        lines = parsable_lines(shown, rows, header=header, ending=ending)
    else:
        lines = sized_lines(shown, rows, header=header)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
