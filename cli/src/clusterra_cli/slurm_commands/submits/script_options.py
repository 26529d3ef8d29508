"""The options of a script's `#SBATCH` lines that concern the command `sbatch`, which the gateway does not take."""

import re
from collections.abc import Iterator
from itertools import pairwise

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

_QUOTED = re.compile(r"""\\.|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""")


def taken_out(script: str) -> tuple[str, tuple[Given, ...]]:
    """The script without the options of the command, and these. Its lines keep their numbers."""
    lines, given = script.split("\n"), list[Given]()
    for number, line in _option_lines(script):
        words, rest = _words(line)
        given += [Given(_OF_COMMAND[each]) for each in words if each in _OF_COMMAND]
        kept = (each for each in words if each not in _OF_COMMAND and not _WITHOUT_EFFECT.fullmatch(each))
        lines[number] = "".join([line[: len(PREFIXES[0])], *kept, rest])
    return "\n".join(lines), tuple(given)


def exported(script: str) -> tuple[Given, ...]:
    """The `--export` options of a script: what they name has the values of here."""
    found = list[Given]()
    for _, line in _option_lines(script):
        words = [_QUOTED.sub(_unquoted, each) for each in _words(line)[0] if each.strip(" \t")]
        found += [Given("export", each.partition("=")[2]) for each in words if each.startswith("--export=")]
        found += [Given("export", after) for each, after in pairwise(words) if each == "--export"]
    return tuple(found)


def _option_lines(script: str) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(head(script)) if line.startswith(PREFIXES))


def _words(line: str) -> tuple[list[str], str]:
    """The words behind the prefix with the blanks between them, and the rest, such as a comment."""
    words, at = list[str](), len(PREFIXES[0])
    while (found := _WORD.match(line, at)) is not None:
        words.append(found[0])
        at = found.end()
    return words, line[at:]


def _unquoted(found: re.Match[str]) -> str:
    inner = found[0][1:-1] if found[0][0] in "\"'" else found[0]
    return re.sub(r"\\(.)", r"\1", inner)
