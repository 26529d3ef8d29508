"""The exit codes of `clusterra`, and what it says when it ends with one."""

from typing import Never

import typer

from clusterra_cli.output import note

FAILED = 1
USAGE = 2
SIGN_IN = 4
NOT_FOUND = 5
REFUSED = 6
WORSE = (NOT_FOUND, REFUSED, FAILED)
"""The exit codes of several changes in one command: the last of these that is among them counts."""


def end(code: int, text: str) -> Never:
    """End the command with an error."""
    note(f"error: {text}")
    raise typer.Exit(code)


def report(error: Exception) -> int | None:
    """Print an error of the SDK, and return the exit code for it. None for an error that nobody expects."""
    from clusterra import errors
    from clusterra.context import ConfigError

    if not isinstance(error, errors.ClusterraError):
        return None
    text = f"error: {error}"
    code = FAILED
    if isinstance(error, errors.SignInNeeded):
        text, code = f"{text}\nSign in with `clusterra login`.", SIGN_IN
    elif isinstance(error, errors.NotClusterra):
        text += "\nA proxy in between may have answered: check the address of the gateway, or try again later."
    elif isinstance(error, ConfigError):
        code = USAGE
    elif isinstance(error, errors.NotFound):
        code = NOT_FOUND
    elif isinstance(error, errors.Forbidden | errors.Refused):
        code = REFUSED
    fields = [f"  {each.pointer or each.parameter}: {each.detail}" for each in getattr(error, "errors", ())]
    # One wrong field stands in the detail itself.
    note("\n".join([text, *(fields if len(fields) > 1 else ())]))
    return code
