"""`notifications`: what you get mails about."""

from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli.connection import Json, Url, connected
from clusterra_cli.output import Output
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra.models import Notifications

NOTIFICATIONS = "/v1/users/me/notifications"
NAMES = {
    "jobs-started": "your jobs start",
    "jobs-ended": "your jobs end, however they do",
    "jobs-failed": "your jobs fail or reach their time limit",
    "sessions-ready": "your interactive sessions can be opened",
    "runs-ended": "your runs of workflows end",
    "budgets": "a budget reaches a threshold",
}
"""What can be chosen, and what it is about."""

notifications = typer.Typer(
    no_args_is_help=True, help="Show and choose what you get mails about, besides jobs with --mail-type."
)


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    command.add_typer(notifications, name="notifications")


@notifications.command()
def show(json: Json = False, url: Url = None) -> None:
    """Show what you get mails about, and the address that they go to."""
    from clusterra.models import Notifications

    with connected(url) as client:
        _tell(client.fetch(Notifications, "GET", NOTIFICATIONS), json)


@notifications.command("set")
def choose(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KIND]...", help=f"What to get mails about: {', '.join(NAMES)}. None: nothing."),
    ] = None,
    json: Json = False,
    url: Url = None,
) -> None:
    """Choose what you get mails about, in place of what you chose before. Without a KIND, you get none."""
    from clusterra.models import Notifications

    given = wanted or []
    if unknown := [each for each in given if each not in NAMES]:
        raise WrongUsage(f"{unknown[0]} is none of {', '.join(NAMES)}")
    body = {name.replace("-", "_"): name in given for name in NAMES}
    with connected(url) as client:
        _tell(client.fetch(Notifications, "PUT", NOTIFICATIONS, body=body), json)


def _tell(found: "Notifications", json: bool) -> None:
    chosen = [about for name, about in NAMES.items() if getattr(found, name.replace("-", "_"))]
    if not found.enabled:
        text = "this installation sends no mails"
    elif not found.address:
        text = "this account gets no mails"
    elif chosen:
        text = f"mails go to {found.address} when {', '.join(chosen)}, and for jobs with --mail-type"
    else:
        text = f"mails go to {found.address} only for jobs with --mail-type"
    Output(json).one(found, found.address, text)
