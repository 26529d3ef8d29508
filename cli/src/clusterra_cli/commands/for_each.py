"""Changes several things of one kind: each is tried, also after one that could not be changed, and each is reported."""

from collections.abc import Callable, Iterable

import typer

from clusterra_cli import exit_codes
from clusterra_cli.output import Output


def for_each(output: Output, ids: Iterable[str], act: Callable[[str], object], *, noun: str, outcome: str) -> None:
    """Change what the ids name. Ends with the worst exit code where something is not found, or refused."""
    from clusterra.errors import Forbidden, NotFound, Refused

    codes: set[int | None] = set()
    for each in ids:
        try:
            act(each)
        except (Forbidden, NotFound, Refused) as error:
            codes.add(exit_codes.report(error))
        else:
            output.done(each, f"{noun} {each} is {outcome}", outcome=outcome)
    if codes:
        raise typer.Exit(next(each for each in reversed(exit_codes.WORSE) if each in codes))
