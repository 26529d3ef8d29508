"""What all commands share on a terminal: exit codes, errors, JSON, and logs that stay out of the output."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from pydantic import ValidationError

FAILED = 1
"""The exit code of a command that could not do its work."""
DIFFERS = 2
"""The exit code of a command that only looks, when what it finds is not as declared."""

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="Seconds until the command gives up.")]


def fail(problem: object, hint: str = "") -> NoReturn:
    """Print what went wrong and what to do about it, and end with exit code 1."""
    typer.echo(f"error: {problem}" + (f"\n  {hint}" if hint else ""), err=True)
    raise typer.Exit(FAILED)


@contextmanager
def failing_on(*errors: type[Exception]) -> Iterator[None]:
    """End the command with exit code 1 when one of these errors is raised; its `hint` is printed where it has one.

    An error of pydantic names the wrong fields, those of settings as environment variables, and not their values.
    """
    try:
        yield
    except errors as error:
        # Imported here, because `--help` needs no models.
        from pydantic import ValidationError

        fail(wrong_fields(error) if isinstance(error, ValidationError) else error, getattr(error, "hint", ""))


def wrong_fields(error: "ValidationError") -> str:
    """Each wrong field and why it is wrong, without its value; a field of settings as its environment variable."""
    found = []
    for problem in error.errors(include_url=False, include_input=False, include_context=False):
        field = ".".join(map(str, problem["loc"]))
        name = f"CLUSTERRA_{field.upper()}" if field and error.title.endswith("Settings") else field
        found.append(f"{name}: {problem['msg']}" if name else problem["msg"])
    return "; ".join(found)


def print_json(content: Any, *, foreign: bool = False) -> None:
    """Print a document on standard output. `foreign`: others wrote parts of it, so only ASCII reaches the terminal."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=foreign, default=str))


def visible(text: str) -> str:
    """A text of others in one line: what a terminal would obey, or not show, is an escape such as `\\x1b`."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def log_to_stderr() -> None:
    """Send warnings of the libraries to standard error, so that standard output holds only the command's result."""
    # Imported here, because `--help` needs no logs.
    import logging

    import structlog

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
    )
