"""The options that commands share, and the client with which they speak with the gateway."""

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from clusterra_cli.retry_notice import RetryNotice
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
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="Print at most N.")]
Key = Annotated[
    str | None,
    typer.Option(help="Idempotency-Key of your own: repeating the command with it changes nothing more."),
]


def connected(url: str | None, cluster: str | None = None) -> "Client":
    """A client of the chosen gateway and cluster. Raises ConfigError where none is chosen."""
    from clusterra import Client

    return Client(url, cluster=cluster, on_retry=RetryNotice())


def on_cluster(*parts: str) -> str:
    """A path below the chosen cluster, for the client: `on_cluster("runs", "ab")` is `/v1/clusters/{cluster}/runs/ab`.

    What a user writes becomes one segment of it, whatever its characters.
    """
    return f"/v1/clusters/{{cluster}}/{joined(*parts)}"


def joined(*parts: str) -> str:
    """The parts of a path, each as one segment."""
    return "/".join(quote(each, safe="") for each in parts)


def job_of(client: "Client", job_id: str, *, tasks: bool = False) -> "Job":
    """The handle of a job or a task; with `tasks` also of several tasks. Raises WrongUsage for what is no id of one."""
    try:
        job = client.job(job_id)
    except ValueError as error:
        raise WrongUsage(str(error)) from None
    if "[" in job_id and not tasks:
        raise WrongUsage(f"{job_id} is several tasks", "name one of them, such as 42_7")
    return job
