"""The options that commands share, and the client with which they speak with the gateway."""

from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra import Client, Job

Url = Annotated[
    str | None, typer.Option("--url", envvar="CLUSTERRA_URL", help="The gateway, in place of the context's.")
]
Cluster = Annotated[
    str | None,
    typer.Option("--cluster", "-M", envvar="CLUSTERRA_CLUSTER", help="The cluster, in place of the context's."),
]
Json = Annotated[bool, typer.Option("--json", help="Answer with JSON; streams are lines of JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only ids.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="Print at most so many.")]


def connected(url: str | None, cluster: str | None = None) -> "Client":
    """A client of the chosen gateway and cluster. Raises ConfigError where none is chosen."""
    from clusterra import Client

    return Client(url, cluster=cluster)


def job_of(client: "Client", job_id: str) -> "Job":
    """The handle of a job. Raises WrongUsage for what is no id of one."""
    try:
        return client.job(job_id)
    except ValueError as error:
        raise WrongUsage(str(error)) from None
