"""`webhooks`: URLs to which the events of a workspace are delivered, for admins."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clusterra_cli.bounded_input import read_bounded
from clusterra_cli.commands.listing_group import listing_group
from clusterra_cli.completion import known_webhooks
from clusterra_cli.connection import Json, Key, Limit, Quiet, Url, connected, joined
from clusterra_cli.output import Column, Output, moment, note
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra.models import Webhook, WebhookAttempt

WEBHOOKS = "/v1/webhooks"
_MOST_SECRET_BYTES = 1024**2
WebhookArgument = Annotated[
    str,
    typer.Argument(
        metavar="WEBHOOK", autocompletion=known_webhooks, help="A webhook, as `clusterra webhooks` lists it."
    ),
]


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    command.add_typer(webhooks, name="webhooks")


def list_webhooks(json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """List the webhooks of your workspace, with the state of their deliveries."""
    from clusterra.models import Webhook

    with connected(url) as client:
        found = list(client.pages(Webhook, WEBHOOKS))
    Output(json, quiet).listed(
        found,
        (
            *(Column("WEBHOOK"), Column("NAME"), Column("STATE"), Column("EVENTS"), Column("CLUSTERS")),
            *(Column("USERS"), Column("CREATED"), Column("URL")),
        ),
        lambda each: (
            *(each.id, each.name, _state(each), " ".join(each.kinds) or "all", " ".join(each.clusters) or "all"),
            *(" ".join(each.users) or "all", moment(each.created_at), each.url),
        ),
        lambda each: each.id,
    )


webhooks = listing_group(
    list_webhooks,
    "List, create, test and delete webhooks. This needs an admin's token with the scopes webhooks:read and"
    " webhooks:write: `clusterra login --scope profile --scope webhooks:read --scope webhooks:write`.",
)


@webhooks.command()
def create(
    address: Annotated[str, typer.Argument(help="Where events are sent, such as https://ci.example.com/hooks/7f3a.")],
    name: Annotated[str, typer.Option("--name", "-n", help="A name to recognise it by.")],
    kinds: Annotated[
        list[str] | None,
        typer.Option("--kind", help="Kinds of events such as job.failed, or all of a family: 'job.*'. By default all."),
    ] = None,
    clusters: Annotated[
        list[str] | None, typer.Option("--cluster", "-M", help="Events of these clusters; by default of all.")
    ] = None,
    users: Annotated[
        list[str] | None,
        typer.Option("--user", help="Events about jobs, runs and sessions of these users; by default all events."),
    ] = None,
    arrays: Annotated[
        Literal["digest", "tasks"],
        typer.Option(help="The events of tasks of arrays: counted in digests after the first failure, or one by one."),
    ] = "digest",
    secret_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A file with the secret that the receiver has already, or - for stdin: whsec_ and 24 to 64 random"
            " bytes in base64. By default a new one is made.",
        ),
    ] = None,
    form: Annotated[
        Literal["standard", "slack"],
        typer.Option("--format", help="Signed events, or messages to an incoming webhook of Slack."),
    ] = "standard",
    key: Key = None,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
) -> None:
    """Create a webhook: events are delivered to a URL from now on. The secret is printed only once.

    The receiver must answer a test event first, with a status of 200 to 299. It can verify it if it has the secret of
    --secret-file.
    """
    from clusterra.models import MadeWebhook

    secret = None if secret_file is None else _secret(secret_file)
    body = {"name": name, "url": address, "kinds": kinds, "clusters": clusters, "users": users}
    body |= {"arrays": arrays, "secret": secret}
    if form != "standard":
        body["format"] = form
    given = {field: each for field, each in body.items() if each is not None}
    with connected(url) as client:
        made = client.fetch(MadeWebhook, "POST", WEBHOOKS, body=given, key=key)
    Output(json, quiet).one(made, made.id, made.secret or made.id)
    if not quiet and not made.secret:
        note(f"webhook {made.id} is created")
    elif not quiet:
        note(f"webhook {made.id} is created; this secret verifies its deliveries, and is not shown again")


@webhooks.command("test")
def send_test(webhook_id: WebhookArgument, json: Json = False, url: Url = None) -> None:
    """Send a test event to a webhook, in one attempt. Exits with 1 if it is not delivered."""
    from clusterra.models import WebhookAttempt

    with connected(url) as client:
        attempt = client.fetch(WebhookAttempt, "POST", f"{WEBHOOKS}/{joined(webhook_id, 'test')}")
    Output(json).one(attempt, webhook_id, _outcome(attempt))
    if not attempt.delivered:
        raise typer.Exit(1)


@webhooks.command()
def rotate(
    webhook_id: WebhookArgument,
    overlap_hours: Annotated[
        int,
        typer.Option(min=0, max=168, help="For how long deliveries are still signed with the old secret, too."),
    ] = 24,
    key: Key = None,
    json: Json = False,
    url: Url = None,
) -> None:
    """Create a new secret for a webhook. It is printed only once."""
    from clusterra.models import RotatedSecret

    body = {"overlap_seconds": overlap_hours * 3600}
    with connected(url) as client:
        made = client.fetch(RotatedSecret, "POST", f"{WEBHOOKS}/{joined(webhook_id, 'secret')}", body=body, key=key)
    Output(json).one(made, made.id, made.secret)
    until = "at once" if made.old_secret_until is None else f"at {moment(made.old_secret_until)}"
    note(f"the old secret ends {until}; the new one is not shown again")


@webhooks.command()
def replay(
    webhook_id: WebhookArgument,
    hours: Annotated[int | None, typer.Option(min=1, max=72, help="Events of the last hours.")] = None,
    after: Annotated[str | None, typer.Option(help="Events since a time, such as 2026-11-23T17:00:00Z.")] = None,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
) -> None:
    """Deliver the events since a time again, and continue from there."""
    from clusterra.models import Webhook

    if (hours is None) == (after is None):
        raise WrongUsage("say since when, by --hours or by --after", "such as --hours=24")
    since = after if hours is None else (datetime.now(UTC) - timedelta(hours=hours)).isoformat()
    with connected(url) as client:
        changed = client.fetch(Webhook, "POST", f"{WEBHOOKS}/{joined(webhook_id, 'replay')}", body={"after": since})
    text = f"webhook {changed.id} gets the events since {moment(changed.deliver_from)} again"
    Output(json, quiet).one(changed, changed.id, text)


@webhooks.command()
def deliveries(
    webhook_id: WebhookArgument,
    failed: Annotated[bool, typer.Option("--failed", help="Only those whose last attempt failed.")] = False,
    limit: Limit = 50,
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
) -> None:
    """List the deliveries of a webhook, the newest first: the last 1,000, of at most 7 days."""
    from clusterra.models import WebhookDelivery

    query = {"failed_only": failed, "limit": min(limit, 200)}
    path = f"{WEBHOOKS}/{joined(webhook_id, 'deliveries')}"
    with connected(url) as client:
        found = list(client.pages(WebhookDelivery, path, query=query, limit=limit))
    Output(json, quiet).listed(
        found,
        (
            *(Column("LAST ATTEMPT"), Column("EVENT"), Column("CLUSTER"), Column("ABOUT")),
            *(Column("ATTEMPTS", right=True), Column("OUTCOME"), Column("MESSAGE")),
        ),
        lambda each: (
            *(moment(each.time), each.kind, each.cluster_id, each.subject, each.attempts),
            *(f"{_outcome(each.last)}{', given up' if each.given_up else ''}", each.message_id),
        ),
        lambda each: each.message_id,
    )


@webhooks.command()
def delete(webhook_id: WebhookArgument, json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """Delete a webhook. Nothing is delivered to it any more."""
    with connected(url) as client:
        client.request("DELETE", f"{WEBHOOKS}/{joined(webhook_id)}")
    Output(json, quiet).done(webhook_id, f"webhook {webhook_id} is deleted", outcome="deleted")


def _secret(name: str) -> str:
    """The secret in a file. Raises WrongUsage, which does not repeat it."""
    lines = read_bounded(name, _MOST_SECRET_BYTES).split()
    if len(lines) != 1 or not lines[0].startswith(b"whsec_") or not lines[0].isascii():
        raise WrongUsage(
            f"{name} has no secret", "it has one line, as this makes it: echo whsec_$(openssl rand -base64 32)"
        )
    return lines[0].decode()


def _state(webhook: "Webhook") -> str:
    reason = f": {webhook.disabled_reason}" if webhook.disabled_reason else ""
    return f"{webhook.state or 'unknown'}{reason}"


def _outcome(attempt: "WebhookAttempt") -> str:
    if attempt.status is None:
        return attempt.problem or "no answer"
    if attempt.delivered:
        return f"delivered, {attempt.status}"
    return f"failed, {attempt.status}{f': {attempt.problem}' if attempt.problem else ''}"
