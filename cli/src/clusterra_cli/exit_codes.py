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


def report(error: Exception, subject: str = "") -> int | None:
    """Print an error of the SDK, and return the exit code for it. None for an error that nobody expects.

    `subject`: what of several things it is about, such as `job 4`.
    """
    from clusterra import errors
    from clusterra.context import ConfigError

    from clusterra_cli.hints import hint_of, on_the_command_line, sign_in_text

    if not isinstance(error, errors.ClusterraError):
        return None
    text, code = str(error), FAILED
    if isinstance(error, errors.ApiError):
        hint = hint_of(error.detail, error.hint)
        text = f"{error.detail}\n{hint}" if hint else error.detail
    if isinstance(error, errors.SignInNeeded):
        text, code = sign_in_text(error.detail, error.hint), SIGN_IN
    elif isinstance(error, errors.NotClusterra):
        text += "\nA proxy in between may have answered: check the address of the gateway, or try again later."
    elif isinstance(error, ConfigError):
        text, code = on_the_command_line(text), USAGE
    elif isinstance(error, errors.NotFound):
        code = NOT_FOUND
    elif isinstance(error, errors.Forbidden | errors.Refused):
        code = REFUSED
    fields = [f"  {each.pointer or each.parameter}: {each.detail}" for each in getattr(error, "errors", ())]
    # One wrong field stands in the detail itself.
    about = f"{subject}: error" if subject else "error"
    note("\n".join([f"{about}: {text}", *(fields if len(fields) > 1 else ())]))
    return code
