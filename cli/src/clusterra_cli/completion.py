"""What a shell completes: the ids and names of what there is now.

A person waits at the prompt meanwhile, so nobody is waited for longer than SECONDS, and every failure is an empty list.
zsh evaluates what it gets as code. Of other people's names it gets letters, digits and a few signs alone.
"""

import re
from collections.abc import Callable, Iterable
from threading import Thread
from typing import TYPE_CHECKING

from clusterra_cli.connection import connected, on_cluster

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


def known_workflows(incomplete: str) -> Completions:
    """The newest workflows whose ids begin so, with their names and states."""
    from clusterra.models import Run

    path = on_cluster("runs")
    return _completed(
        incomplete,
        lambda client: ((each.run_id, f"{each.run_name} {each.state}") for each in client.pages(Run, path, limit=MOST)),
    )


def known_schedules(incomplete: str) -> Completions:
    """The schedules whose ids begin so, with their names."""
    from clusterra.models import Schedule

    return _completed(
        incomplete, lambda client: ((each.id, each.name) for each in client.pages(Schedule, "/v1/schedules"))
    )


def known_sessions(incomplete: str) -> Completions:
    """The sessions whose ids begin so, with their names and states."""
    from clusterra.models import Session

    path = on_cluster("sessions")
    return _completed(
        incomplete,
        lambda client: ((each.job_id, f"{each.name} {each.state}") for each in client.pages(Session, path)),
    )


def known_links(incomplete: str) -> Completions:
    """The caller's links whose ids begin so, with their names and jobs."""
    return _completed(
        incomplete, lambda client: ((each.id, f"{each.name} job {each.job_id}") for each in client.links())
    )


def known_members(incomplete: str) -> Completions:
    """The members whose names begin so, with their addresses and roles."""
    from clusterra.models import Member

    return _completed(
        incomplete,
        lambda client: (
            (each.name, f"{each.email} {each.role}") for each in client.pages(Member, "/v1/members", limit=MOST)
        ),
    )


def known_service_accounts(incomplete: str) -> Completions:
    """The service accounts whose names begin so."""
    from clusterra.models import ServiceAccount

    path = "/v1/service-accounts"
    return _completed(
        incomplete,
        lambda client: ((each.name, each.description) for each in client.pages(ServiceAccount, path)),
    )


def known_bus_credentials(incomplete: str) -> Completions:
    """The bus credentials whose ids begin so, with their names."""
    from clusterra.models import BusCredential

    return _completed(
        incomplete,
        lambda client: ((each.id, each.name) for each in client.pages(BusCredential, "/v1/bus-credentials")),
    )


def known_webhooks(incomplete: str) -> Completions:
    """The webhooks whose ids begin so, with their names."""
    from clusterra.models import Webhook

    return _completed(
        incomplete, lambda client: ((each.id, each.name) for each in client.pages(Webhook, "/v1/webhooks"))
    )


def _completed(incomplete: str, ask: "Callable[[Client], Iterable[tuple[str, str]]]") -> Completions:
    found: Completions = []
    try:
        client = connected(None)
    except Exception:
        return []

    def run() -> None:
        try:
            with client:
                found.extend(ask(client))
        except Exception:
            # A completion has no place for an error.
            found.clear()

    # A daemon does not keep the program from its end.
    asking = Thread(target=run, daemon=True)
    asking.start()
    asking.join(SECONDS)
    known = [] if asking.is_alive() else found
    return [
        (name, _UNSAFE.sub("?", text)[:_LONGEST_HELP])
        for name, text in known
        if name.startswith(incomplete) and _ID.fullmatch(name)
    ]
