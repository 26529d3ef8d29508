"""What commands print. Text of other people, such as the name of a job, is printed as Slurm's own commands print it."""

import sys


def write_line(text: str) -> None:
    """Print a line on stdout at once: whoever reads it may wait for it."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    """Print a line on stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
