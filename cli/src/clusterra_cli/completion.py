"""What a shell completes: the ids of jobs and templates that there are now.

A person waits at the prompt meanwhile, so nobody is waited for longer than SECONDS, and every failure is an empty list.
zsh evaluates what it gets as code. Of other people's names it gets letters, digits and a few signs alone.
"""

import re
from collections.abc import Callable, Iterable
from threading import Thread
from typing import TYPE_CHECKING

from clusterra_cli.connection import connected

if TYPE_CHECKING:
    from clusterra import Client

type Completions = list[tuple[str, str]]

MOST = 100
"""How many there are to choose from."""
SECONDS = 1.0
_ID = re.compile(r"[\w.-]{1,200}", re.ASCII)
_UNSAFE = re.compile(r"[^\w .,-]")
_LONGEST_HELP = 80


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
    found: Completions = []
    try:
        client = connected(None)
    except Exception:
        return []

    def run() -> None:
        try:
            found.extend(ask(client))
        except Exception:
            # A completion has no place for an error.
            found.clear()

    # A daemon does not keep the program from its end.
    asking = Thread(target=run, daemon=True)
    asking.start()
    asking.join(SECONDS)
    told = [] if asking.is_alive() else found
    return [
        (name, _UNSAFE.sub("?", text)[:_LONGEST_HELP])
        for name, text in told
        if name.startswith(incomplete) and _ID.fullmatch(name)
    ]
