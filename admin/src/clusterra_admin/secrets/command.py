"""`clusterra-admin secrets`: makes every secret of an installation."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterra_admin.terminal import Json, fail, failing_on, print_json

if TYPE_CHECKING:
    from clusterra_contracts.identity import ClusterRef

command = typer.Typer(no_args_is_help=True, help="Secrets of an installation, in one directory.")

Place = Annotated[
    Path, typer.Argument(metavar="DIRECTORY", help="The directory of secrets; `init` makes it if it is missing.")
]
Tenant = Annotated[str, typer.Option(help="Id of the cluster's tenant.")]
Cluster = Annotated[str, typer.Option(help="Id of the cluster.")]
Days = Annotated[int, typer.Option(min=1, max=3650, help="Days until the edge-agent's login at NATS expires.")]
CentralDays = Annotated[
    int, typer.Option(min=1, max=3650, help="Days until the logins of central services at NATS expire.")
]

AGENT_DAYS = 90
CENTRAL_DAYS = 365
_GIVE = "give it to the authority: the authority sends it to every nats-server, and to NATS for its next start"


@command.command()
def init(
    directory: Place,
    tenant: Annotated[str | None, typer.Option(help="Id of a tenant; together with --cluster.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Id of a cluster, whose secrets are made too.")] = None,
    bring: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="Use your own secret, in FILE, as the secret NAME.")
    ] = None,
    replace: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Make the secret NAME again, although it exists.")
    ] = None,
    days: Days = AGENT_DAYS,
    central_days: CentralDays = CENTRAL_DAYS,
    json: Json = False,
) -> None:
    """Make every secret that is missing. What is there stays; a second run only completes, and renews logins of central
    services that end within 60 days while the key of their account is there.

    The seeds `nats/*.nk` make other secrets and are mounted nowhere: keep them offline.
    """
    from clusterra_admin.secrets.declared import RESOLVER
    from clusterra_admin.secrets.directory import Directory
    from clusterra_admin.secrets.making import Lifetimes, Making
    from clusterra_admin.secrets.problem import SecretsProblem

    with failing_on(SecretsProblem):
        ref = _ref(tenant, cluster)
        made = Making(Directory(directory), _brought(bring or []), replace or [], Lifetimes(days, central_days)).run(
            ref
        )
    if json:
        print_json({"directory": str(directory), "secrets": [vars(each) for each in made]})
        return
    for each in made:
        typer.echo(f"{each.outcome:10} {each.name}: {each.purpose}")
        if each.former_mode is not None:
            typer.echo(f"{'':10} mode was {each.former_mode}, is now {each.mode}: renew it if others read it")
    if any(each.name == RESOLVER and each.outcome in ("replaced", "updated") for each in made):
        typer.echo(f"{directory / RESOLVER}: {_GIVE}")


@command.command("list")
def list_secrets(
    directory: Place,
    tenant: Annotated[str | None, typer.Option(help="Id of a tenant; together with --cluster.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Id of a cluster, whose secrets are listed too.")] = None,
    json: Json = False,
) -> None:
    """Print every secret: whether it exists, what it is for, and whether `init --bring` accepts it. Makes nothing."""
    from clusterra_admin.secrets.declared import INSTALLATION, of_cluster
    from clusterra_admin.secrets.directory import Directory

    ref, place = _ref(tenant, cluster), Directory(directory)
    found: list[dict[str, Any]] = [
        {
            "name": secret.name,
            "there": place.has(secret.name),
            "mode": f"{place.mode(secret.name):04o}" if place.has(secret.name) else None,
            "declared_mode": f"{secret.mode:04o}",
            "purpose": secret.purpose,
            "may_be_brought": secret.accepts is not None,
        }
        for secret in (*INSTALLATION, *(of_cluster(ref) if ref is not None else ()))
    ]
    if json:
        print_json({"directory": str(directory), "secrets": found})
        return
    for each in found:
        typer.echo(f"{'there' if each['there'] else 'missing':8} {each['name']}: {each['purpose']}")
        mode = each["declared_mode"]
        if each["there"] and int(each["mode"], 8) & ~int(mode, 8):
            mode = f"{each['mode']}, which `init` restricts to {mode}"
        typer.echo(f"{'':8} {'may be brought' if each['may_be_brought'] else 'is derived'}; mode {mode}")


@command.command()
def agent(directory: Place, tenant: Tenant, cluster: Cluster, days: Days = AGENT_DAYS) -> None:
    """Make or renew the login of a cluster's edge-agent at NATS. The agent reads the file at its next connect."""
    from clusterra_admin.secrets import declared, nats_operator
    from clusterra_admin.secrets.directory import Directory
    from clusterra_admin.secrets.problem import SecretsProblem

    with failing_on(SecretsProblem):
        ref, place = _ref(tenant, cluster), Directory(directory)
        assert ref is not None  # noqa: S101 - both ids are required here
        name = declared.agent_credentials(ref)
        place.remove_parts()
        text = nats_operator.agent_credentials(place, ref, days)
        place.write(name, text.encode(), declared.MOUNTED, replace=True)
    typer.echo(f"{directory / name}: valid for {days} days")


@command.command()
def revoke(directory: Place, tenant: Tenant, cluster: Cluster) -> None:
    """Revoke all logins of a cluster's edge-agent until now, and remove its credentials.

    It takes effect when the authority has the new resolver.conf.
    """
    from clusterra_admin.secrets import declared, nats_operator
    from clusterra_admin.secrets.directory import Directory
    from clusterra_admin.secrets.problem import SecretsProblem

    with failing_on(SecretsProblem):
        ref, place = _ref(tenant, cluster), Directory(directory)
        assert ref is not None  # noqa: S101 - both ids are required here
        place.remove_parts()
        text = nats_operator.revoked(place, ref)
        place.write(declared.RESOLVER, text.encode(), declared.MOUNTED, replace=True)
        place.remove(declared.agent_credentials(ref))
    typer.echo(f"{directory / declared.RESOLVER}: {_GIVE}")


@command.command("agent-key")
def agent_key() -> None:
    """Generate an edge-agent's key for HTTP and print it. `init` makes one for each cluster."""
    from clusterra_contracts.agent_http import new_key

    typer.echo(new_key())


@command.command("operator-token")
def operator_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The operator: a-z, 0-9 and -, from a letter on.")],
    read_only: Annotated[bool, typer.Option("--read-only", help="They may look at tenants, and change none.")] = False,
) -> None:
    """Generate the token of an operator of the platform, and their entry for CLUSTERRA_OPERATORS_FILE.

    The entry has the token's hash alone. Hand the token over by a way that nobody else reads: it is kept nowhere.
    """
    from clusterra_gateway.identity.access.operators import entry_of, new_token
    from pydantic import ValidationError

    token = new_token()
    try:
        entry = entry_of(name, token, read_only=read_only)
    except ValidationError:
        fail(f"{name!r} must be a name of an operator", "it has 1 to 32 of a-z, 0-9 and -, and begins with a letter")
    typer.echo(f"token: {token}")
    typer.echo("entry, below `operators:` in the file:")
    typer.echo(entry)


def _ref(tenant: str | None, cluster: str | None) -> "ClusterRef | None":
    from clusterra_contracts.identity import ClusterRef
    from pydantic import ValidationError

    if tenant is None and cluster is None:
        return None
    if tenant is None or cluster is None:
        fail("--tenant and --cluster belong together", "give both, or none for the installation's own secrets alone")
    try:
        return ClusterRef(tenant=tenant, cluster=cluster)
    except ValidationError:
        fail(
            f"{tenant!r} and {cluster!r} must be ids",
            "an id has 1 to 39 of a-z, 0-9 and -, and begins with a letter or a digit",
        )


def _brought(given: list[str]) -> dict[str, Path]:
    pairs = [each.partition("=") for each in given]
    if wrong := [name for name, equals, file in pairs if not (name and equals and file)]:
        fail(f"--bring {wrong[0]} is not NAME=FILE", "such as --bring session-key=own/session-key")
    return {name: Path(file) for name, _, file in pairs}
