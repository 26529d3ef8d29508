"""What a shell completes: the ids of jobs and templates that there are now."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from clusterra_cli.connection import connected
from clusterra_cli.output import one_line

if TYPE_CHECKING:
    from clusterra import Client

type Completions = list[tuple[str, str]]

MOST = 100
"""How many there are to choose from."""


def known_jobs(incomplete: str) -> Completions:
    """The newest jobs whose ids begin so, with their names and states."""
    return _completed(
        incomplete,
        lambda client: ((each.job_id, f"{each.name} {each.state}") for each in client.jobs(limit=MOST)),
    )


def known_templates(incomplete: str) -> Completions:
    """The templates whose ids begin so, with their names."""
    return _completed(incomplete, lambda client: ((each.id, each.name) for each in client.templates()))


def _completed(incomplete: str, ask: "Callable[[Client], Iterable[tuple[str, str]]]") -> Completions:
    """Nothing where nobody answers: a completion has no place for an error."""
    from clusterra.errors import ClusterraError

    try:
        with connected(None) as client:
            return [(name, one_line(help_text)) for name, help_text in ask(client) if name.startswith(incomplete)]
    except ClusterraError:
        return []
