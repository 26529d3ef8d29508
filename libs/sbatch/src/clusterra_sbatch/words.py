"""Finds the lines of a script that have options, and splits them into words, character by character as sbatch does."""

from collections.abc import Iterator
from dataclasses import dataclass

from clusterra_sbatch.problems import HINT, Problem

PREFIX = "#SBATCH"
PREFIXES = (PREFIX, "#SLURM")
"""sbatch still reads the second one, which was its name before 2010."""
BSUB, PBS = "#BSUB", "#PBS"
"""The lines of two other systems, which sbatch translates."""
BLANKS = " \t\n\v\f\r"
"""What separates words. No other character does, such as a no-break space."""

_SEPARATORS = ("hetjob", "packjob")
_MAX_OTHER_LINES = 100
"""After how many lines without a `#` sbatch looks for no further lines of other systems."""


@dataclass(frozen=True)
class Word:
    """A word of a line with options. Lines are counted from 1."""

    line: int
    text: str


class Malformed(ValueError):
    """A line that sbatch cannot read; the text gives the reason, and `hint` says what to do."""

    def __init__(self, reason: str, hint: str = HINT) -> None:
        self.hint = hint
        super().__init__(reason)


def head(script: str) -> list[str]:
    """Return the lines before the first command, where `#SBATCH` lines count."""
    found: list[str] = []
    for line in script.split("\n"):
        if not line.startswith("#") and (text := line.lstrip(BLANKS)) and text[0] != "#":
            break
        found.append(line)
    return found


def option_lines(script: str) -> int:
    """Count the lines from which sbatch takes options."""
    own = sum(line.startswith(PREFIXES) for line in head(script))
    return own + sum(1 for prefix in (BSUB, PBS) for _ in _foreign(script, prefix))


def own_words(script: str) -> Iterator[Word | Problem]:
    """Yield the words of all `#SBATCH` lines in order. Those of a line that cannot be read are left out."""
    for number, line in enumerate(head(script), start=1):
        prefix = next((each for each in PREFIXES if line.startswith(each)), None)
        if prefix is None:
            continue
        text = line.removeprefix(prefix)
        if _separates(text, len(text) - len(text.lstrip(BLANKS))):
            yield Problem(
                number, "a script has the options of one component", "give further components in `jobs` of the request"
            )
            return
        yield from _words(number, text)


def foreign_words(script: str, prefix: str) -> Iterator[Word | Problem]:
    """Yield the words of all `#PBS` or `#BSUB` lines in order. They count after the first command too."""
    for number, text in _foreign(script, prefix):
        yield from _words(number, text)


def _foreign(script: str, prefix: str) -> Iterator[tuple[int, str]]:
    others = 0
    for number, line in enumerate(script.split("\n"), start=1):
        if line.startswith(prefix):
            yield number, line.removeprefix(prefix)
        elif not line.startswith("#"):
            others += 1
            if others > _MAX_OTHER_LINES:
                return


def _words(number: int, text: str) -> Iterator[Word | Problem]:
    try:
        yield from [Word(number, word) for word in split(text)]
    except Malformed as error:
        yield Problem(number, str(error), error.hint)


def split(text: str) -> Iterator[str]:
    """Split a line into its words. Raises Malformed.

    A backslash protects one character, within quotes too. A comment begins at any unquoted `#`, even in a word. An
    empty word (`""`) and a component separator end the line: sbatch reads nothing behind them.
    """
    at, end = 0, len(text)
    while True:
        while at < end and text[at] in BLANKS:
            at += 1
        if at == end or _separates(text, at):
            return
        if text[at] == ":":
            raise Malformed("a word cannot begin with `:`")
        word: list[str] = []  # a line may have half a million characters
        quote = ""
        escaped = False
        while at < end and (quote or text[at] not in BLANKS):
            character = text[at]
            if not escaped:
                if character == "\\":
                    # A protected blank does not end the word, which another protected character does.
                    if text[at + 1 : at + 2] == " ":
                        word.append(" ")
                        at += 2
                    else:
                        escaped = True
                        at += 1
                    continue
                if character == quote:
                    quote = ""
                    at += 1
                    continue
                if not quote and character in "\"'":
                    quote = character
                    at += 1
                    continue
                if not quote and character == "#":
                    break
            escaped = False
            word.append(character)
            at += 1
        if quote:
            raise Malformed(f"the quote {quote} is not closed", "close the quote, or remove it")
        if not word:
            return
        yield "".join(word)


def _separates(text: str, at: int) -> bool:
    """Whether the word here separates the components of a heterogeneous job."""
    return any(
        text[at : at + len(each)].lower() == each and (text[at + len(each) : at + len(each) + 1] or " ") in BLANKS
        for each in _SEPARATORS
    )
