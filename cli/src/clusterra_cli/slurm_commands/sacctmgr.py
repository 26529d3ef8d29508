"""`sacctmgr`: lists the caller's own accounts, which programs ask for before they submit. It changes nothing."""

from collections.abc import Sequence

from clusterra_cli.getopt import options, split
from clusterra_cli.slurm_commands.failures import CommandFailed
from clusterra_cli.slurm_commands.reads.associations import columns, print_own
from clusterra_cli.slurm_commands.records import text
from clusterra_cli.slurm_commands.terminal.command_lines import asked_about, read

OPTIONS = options(
    "sacctmgr",
    none="associations:s help:h immediate:i noheader:n parsable:p parsable2:P quiet:Q readonly:r usage verbose:v"
    " version:V",
    optional="json yaml",
    unsupported="json yaml",
)
_WIDTHS = {"Account": 10, "User": 10, "Cluster": 10, "Partition": 10}
_LISTS = ("list", "show")
_CHANGES = ("add", "archive", "create", "delete", "dump", "load", "modify", "ping", "reconfigure", "remove")


def main(arguments: Sequence[str]) -> int:
    """Print accounts. Raises CommandFailed."""
    words = read(OPTIONS, arguments)
    if asked_about(OPTIONS, words):
        return 0
    if not words.others:
        raise CommandFailed("sacctmgr: error: no keyword given, such as: list user")
    keyword, *rest = words.others
    if not any(each.startswith(keyword.lower()) for each in _LISTS):
        known = any(each.startswith(keyword.lower()) for each in _CHANGES)
        raise CommandFailed(f"sacctmgr: error: {keyword} is not supported over HTTP" if known else _invalid(keyword))
    entity = rest.pop(0).lower() if rest else ""
    if not entity or not "users".startswith(entity):
        raise CommandFailed('No valid entity in list command\nInput line must include "User"')
    users, formats, associated = _read(rest)
    if not formats or not (associated or words.has("associations")):
        raise CommandFailed("sacctmgr: error: over HTTP only `-s list user NAME format=Account` is supported")
    shown = columns("sacctmgr", formats, _WIDTHS)
    print_own("sacctmgr", words, shown, lambda record: not users or text(record, "user") in users)
    return 0


def _invalid(keyword: str) -> str:
    return f"invalid keyword: {keyword}"


def _read(words: Sequence[str]) -> tuple[tuple[str, ...], list[str], bool]:
    """The names of users, the formats, and whether associations are wanted. Raises CommandFailed."""
    users: list[str] = []
    formats: list[str] = []
    associated = False
    for word in words:
        name, equals, value = word.partition("=")
        if not equals and word.lower() in ("withassoc", "withassociations", "where"):
            associated = associated or word.lower() != "where"
        elif not equals or name.lower() in ("user", "users", "name", "names"):
            users += split(value if equals else word)
        elif "format".startswith(name.lower()) and name:
            formats.append(value)
        else:
            raise CommandFailed(f" Unknown condition: {word}")
    return tuple(users), formats, associated
