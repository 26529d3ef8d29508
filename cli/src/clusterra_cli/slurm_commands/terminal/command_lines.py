"""Reads the command lines of Slurm's commands, and answers `--version` and `--help`."""

from collections.abc import Sequence

from clusterra_cli import getopt
from clusterra_cli.getopt import Options, Words
from clusterra_cli.slurm_commands.failures import CommandFailed
from clusterra_cli.slurm_commands.terminal.printing import write_line

VERSION = "26.05.5"
"""The Slurm whose commands these are. No cluster is asked for its own: programs want this answer at once."""


def read(known: Options, arguments: Sequence[str], *, first_word_ends: bool = False) -> Words:
    """The options and the other words. Raises CommandFailed for what getopt refuses, and for unsupported options."""
    try:
        words = getopt.read(known, arguments, first_word_ends=first_word_ends)
    except getopt.WrongOption as wrong:
        text = f'{known.command}: {wrong}\nTry "{known.command} --help" for more information'
        raise CommandFailed(text) from None
    if unsupported := next((each.name for each in words.options if each.name in known.unsupported), None):
        raise CommandFailed(f"{known.command}: error: --{unsupported} is not supported over HTTP")
    return words


def asked_about(known: Options, words: Words) -> bool:
    """Print the version or the options of a command, and return whether one of them was asked for."""
    if words.has("version"):
        write_line(f"slurm {VERSION}")
        return True
    if not words.has("help", "usage"):
        return False
    short = {name: letter for letter, name in known.letters.items()}
    values = {"none": "", "required": "=VALUE", "optional": "[=VALUE]"}
    write_line(f"Usage: {known.command} [OPTIONS] ...")
    for name in sorted(known.takes.keys() - known.unsupported):
        letter = f"-{short[name]}, " if name in short else "    "
        write_line(f"  {letter}--{name}{values[known.takes[name]]}")
    write_line("The options are Slurm's own: see its manual. They are answered over HTTP by Clusterra.")
    return True
