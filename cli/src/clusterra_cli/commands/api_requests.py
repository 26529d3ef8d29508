"""`api METHOD PATH`: any other request to the gateway."""

import json as json_text
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from clusterra_cli.bounded_input import read_bounded
from clusterra_cli.connection import Cluster, Url, connected
from clusterra_cli.output import JobText, Output
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra.exchange import Method

MAX_BODY_BYTES = 64 * 1024 * 1024
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def add_to(command: typer.Typer) -> None:
    """Add this command."""
    command.command()(api)


def api(
    method: Annotated[str, typer.Argument(help="GET, HEAD, POST, PUT, PATCH or DELETE.")],
    path: Annotated[
        str, typer.Argument(help="From /v1 on. {cluster} is the chosen cluster: /v1/clusters/{cluster}/runs.")
    ],
    query: Annotated[
        list[str] | None, typer.Option("--query", "-q", metavar="NAME=VALUE", help="A parameter of the query.")
    ] = None,
    body: Annotated[
        str | None, typer.Option("--body", "-d", help="The body as JSON; @FILE reads a file, @- reads stdin.")
    ] = None,
    url: Url = None,
    cluster: Cluster = None,
) -> None:
    """Send any request, and print its answer. GET /v1/api-routes lists all routes."""
    parameters: dict[str, str] = {}
    for each in query or ():
        name, equals, value = each.partition("=")
        if not equals:
            raise WrongUsage(f"--query {each}: it must be NAME=VALUE")
        parameters[name] = value
    with connected(url, cluster) as client:
        given = None if body is None else _body(body)
        try:
            answer = client.request(_method(method), path, query=parameters, body=given)
        except ValueError as error:
            raise WrongUsage(str(error)) from None
    try:
        document: Any = answer.json
    except ValueError:
        shown = JobText()
        shown.write_bytes(answer.body)
        shown.end()
    else:
        Output(json=True).document(document)


def _method(text: str) -> "Method":
    """Raises WrongUsage."""
    if text.upper() not in _METHODS:
        raise WrongUsage(f"there is no method {text}", f"one of {', '.join(_METHODS)}")
    return cast("Method", text.upper())


def _body(text: str) -> Any:
    """The JSON of a body. Raises WrongUsage."""
    try:
        return json_text.loads(read_bounded(text[1:], MAX_BODY_BYTES) if text.startswith("@") else text)
    except ValueError as error:
        raise WrongUsage(f"--body is no JSON: {error}", '--body \'{"name": "value"}\', or --body @FILE') from None
