"""The options of a script's `#SBATCH` lines that concern the command `sbatch`, which the gateway does not take."""

import re

from clusterra_cli.getopt import Given
from clusterra_cli.job_script import PREFIXES, head

_OF_COMMAND = {
    "--wait": "wait",
    "-W": "wait",
    "--parsable": "parsable",
    "--quiet": "quiet",
    "-Q": "quiet",
    "--verbose": "verbose",
    "-v": "verbose",
}
_WITHOUT_EFFECT = re.compile("--(?:get-user-env|propagate)(?:=.*)?", re.DOTALL)
_WORD = re.compile(r"""(?:[^\s"'#\\]|\\.|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')+|[ \t]+""")
"""A word with its quotes, or the blanks before one. A comment, and a quote that is not closed, end the line."""


def taken_out(script: str) -> tuple[str, tuple[Given, ...]]:
    """The script without the options of the command, and these. Its lines keep their numbers."""
    lines, given = script.split("\n"), list[Given]()
    for number, line in enumerate(head(script)):
        if line.startswith(PREFIXES):
            lines[number] = _line(line, given)
    return "\n".join(lines), tuple(given)


def _line(line: str, given: list[Given]) -> str:
    start = len(PREFIXES[0])
    kept, at = [line[:start]], start
    while (found := _WORD.match(line, at)) is not None:
        at, word = found.end(), found[0]
        if word in _OF_COMMAND:
            given.append(Given(_OF_COMMAND[word]))
        elif not _WITHOUT_EFFECT.fullmatch(word):
            kept.append(word)
    return "".join([*kept, line[at:]])
