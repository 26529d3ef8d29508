"""`share` and `links`: links that show one job, read only, to somebody without an account."""

from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli.commands.for_each import for_each
from clusterra_cli.commands.jobs import JobArgument
from clusterra_cli.commands.listing_group import listing_group
from clusterra_cli.completion import known_links
from clusterra_cli.connection import Cluster, Json, Quiet, Url, connected, job_of
from clusterra_cli.output import Column, Output, moment, note
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra import Client

SHOWN = ("output", "cost", "why", "script")


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    command.command()(share)
    command.add_typer(links, name="links")


def share(
    job_id: JobArgument,
    shows: Annotated[
        str, typer.Option(help="What the link shows besides the job: output, cost, why, script; several with commas.")
    ] = "why",
    days: Annotated[int, typer.Option(min=1, max=30, help="For how many days it is valid.")] = 7,
    name: Annotated[str, typer.Option("--name", "-n", help="A name to recognise it by.")] = "",
    json: Json = False,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Create a link that shows one of your jobs, read only, to whoever has it. Its address is printed only once."""
    chosen = tuple(each for each in (part.strip() for part in shows.split(",")) if each)
    if not set(chosen) <= set(SHOWN):
        raise WrongUsage(f"--shows {shows}: a link can show {', '.join(SHOWN)}")
    output = Output(json)
    with connected(url, cluster) as client:
        made = job_of(client, job_id).share(name, shows=chosen, days=days)
        address = f"{client.url}{made.path}"
    if json:
        output.document({**made.model_dump(mode="json"), "url": address})
    else:
        output.text(address)
    note(f"it is valid until {moment(made.expires_at)}, and is not shown again")


def list_links(json: Json = False, quiet: Quiet = False, url: Url = None) -> None:
    """List your links to jobs of all clusters, without their secrets."""
    with connected(url) as client:
        found = list(client.links())
    Output(json, quiet).listed(
        found,
        (
            *(Column("LINK"), Column("NAME"), Column("CLUSTER"), Column("JOB", right=True), Column("SHOWS")),
            *(Column("CREATED"), Column("VALID UNTIL")),
        ),
        lambda each: (
            *(each.id, each.name, each.cluster_id, each.job_id, " ".join(each.shows)),
            *(moment(each.created_at), moment(each.expires_at)),
        ),
        lambda each: each.id,
    )


links = listing_group(list_links, "List and revoke your links to jobs.")


@links.command("revoke")
def revoke_link(
    link_ids: Annotated[
        list[str], typer.Argument(metavar="LINK...", autocompletion=known_links, help="The ids of links.")
    ],
    json: Json = False,
    quiet: Quiet = False,
    url: Url = None,
) -> None:
    """Revoke links."""
    output = Output(json, quiet)
    with connected(url) as client:
        for_each(output, link_ids, lambda each: _revoke(client, each), noun="link", outcome="revoked")


def _revoke(client: "Client", link_id: str) -> None:
    """Revoke one of the caller's links: their list has its job and cluster. Raises NotFound."""
    from clusterra.errors import NotFound, Problem

    for each in client.links():
        if each.id == link_id:
            client.job(each.job_id, cluster=each.cluster_id).revoke_link(link_id)
            return
    detail, hint = f"you have no link {link_id}", "`clusterra links` lists them."
    raise NotFound(Problem(404, "/v1/problems/not-found", detail, hint=hint))
