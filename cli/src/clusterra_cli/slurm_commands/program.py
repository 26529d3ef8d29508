"""The program `clusterra-slurm`: runs the command that its first argument or its own name says, or makes links."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from clusterra_cli.quick_start import start_quickly
from clusterra_cli.slurm_commands.failures import CommandFailed, Refused
from clusterra_cli.slurm_commands.terminal.printing import complain, write_line

COMMANDS = ("sbatch", "squeue", "scancel", "sacct", "sinfo", "scontrol", "srun", "sacctmgr", "sshare")
NAME = "clusterra-slurm"
_USAGE = f"""Usage: {NAME} COMMAND [ARGUMENTS]   run one of {", ".join(COMMANDS)}
       {NAME} install FOLDER           make links of these names in a folder, which you put first on PATH"""


def main() -> None:
    """Run the command line of this process, and end it with its exit code."""
    start_quickly()
    for name in ("stdout", "stderr"):
        # A stream that the caller has closed is None.
        stream = getattr(sys, name) or Path(os.devnull).open("w")  # noqa: SIM115 - until the end
        stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, stream)
    sys.exit(run(sys.argv))


def run(argv: Sequence[str]) -> int:
    """The exit code of a command line, whose first word is the name of the program or of a link to it."""
    name, arguments = Path(argv[0]).name, list(argv[1:])
    if name not in COMMANDS:
        if not arguments or arguments[0] not in (*COMMANDS, "install"):
            complain(_USAGE)
            return 0 if arguments in (["--help"], ["-h"]) else 1
        name = arguments.pop(0)
    try:
        if name == "install":
            return install(arguments)
        code: int = import_module(f"clusterra_cli.slurm_commands.{name}").main(arguments)
        sys.stdout.flush()
    except CommandFailed as failed:
        sys.stdout.flush()
        complain(str(failed))
        return failed.code
    except Refused as error:
        sys.stdout.flush()
        complain(f"{name}: error: {error}")
        return 1
    except BrokenPipeError:
        # Who reads has gone, as `head` does. Nothing is written any more, also not at the end of Python.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130
    return code


def install(arguments: Sequence[str]) -> int:
    """Make a link for each command in a folder. Replaces links, and never a file. Raises CommandFailed."""
    if len(arguments) != 1:
        raise CommandFailed(_USAGE)
    folder = Path(arguments[0])
    program = Path(sys.argv[0]).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in COMMANDS:
            link = folder / name
            if link.is_symlink():
                link.unlink()
            link.symlink_to(program)
    except OSError as error:
        raise CommandFailed(f"{NAME}: {error.filename2 or error.filename}: {error.strerror}") from None
    write_line(f"made {', '.join(COMMANDS)} in {folder.absolute()}: put it first on PATH")
    return 0
