"""`--version`: that of the Slurm whose commands these are. It is asked of nobody, because programs ask at once."""

from clusterra_cli.slurm_commands.printing import tell

VERSION = "26.05.5"


def print_version(_command: str) -> int:
    """Print the version as Slurm's commands do."""
    tell(f"slurm {VERSION}")
    return 0
