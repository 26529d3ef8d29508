"""What to do about a line of a script that sbatch would reject: a hint for each kind of mistake."""

import difflib
import re

from clusterra_sbatch.options import LONG
from clusterra_sbatch.problems import InvalidScript

_UNKNOWN = re.compile(r"sbatch has no option --([A-Za-z0-9-]{1,60})")
_WRONG_VALUE = re.compile(r"(--[a-z-]+)=.*: must be ", re.DOTALL)
_NO_VALUE = re.compile(r"(--[a-z-]+) needs a value")
_OPEN_QUOTE = re.compile(r"the quote . is not closed")


def hint_of(invalid: InvalidScript) -> str:
    """What to do about the first problem of a script."""
    problem = invalid.problems[0]
    if found := _UNKNOWN.match(problem.reason):
        near = difflib.get_close_matches(found[1].lower(), LONG, 1)
        return f"did you mean --{near[0]}?" if near else "remove the option: `man sbatch` names all that there are"
    if found := _WRONG_VALUE.match(problem.reason):
        return f"correct the value of {found[1]} on line {problem.line}"
    if found := _NO_VALUE.match(problem.reason):
        return f"write it as {found[1]}=VALUE"
    if _OPEN_QUOTE.match(problem.reason):
        return "close the quote, or remove it"
    return problem.hint
