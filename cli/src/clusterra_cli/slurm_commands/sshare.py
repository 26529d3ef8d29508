"""`sshare`: lists the caller's own accounts. Shares and usage are not known over HTTP."""

from collections.abc import Sequence

from clusterra_cli.getopt import options
from clusterra_cli.slurm_commands.failures import CommandFailed
from clusterra_cli.slurm_commands.reads.associations import columns, print_own
from clusterra_cli.slurm_commands.records import text
from clusterra_cli.slurm_commands.terminal.command_lines import asked_about, read

OPTIONS = options(
    "sshare",
    none="all:a help long:l noheader:h no-header:n parsable:p parsable2:P partition:m Users:U usage verbose:v"
    " version:V",
    required="accounts:A clusters:M cluster format:o users:u",
    optional="json yaml",
    same={"cluster": "clusters", "no-header": "noheader"},
    unsupported="long partition json yaml",
)
_WIDTHS = {"Account": -20, "User": 10, "Cluster": 10, "Partition": 12}


def main(arguments: Sequence[str]) -> int:
    """Print accounts. Raises CommandFailed."""
    words = read(OPTIONS, arguments)
    if asked_about(OPTIONS, words):
        return 0
    formats = [each.value or "" for each in words.options if each.name == "format"]
    if not formats:
        raise CommandFailed("sshare: error: over HTTP shares are not known: name fields, such as --format=Account,User")
    accounts, users = words.items("accounts"), words.items("users")
    print_own(
        "sshare",
        words,
        columns("sshare", formats, _WIDTHS),
        lambda record: (
            (not accounts or text(record, "account") in accounts) and (not users or text(record, "user") in users)
        ),
    )
    return 0
