"""`login`, `logout` and `whoami`."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from clusterra_cli.connection import Json, Url, connected
from clusterra_cli.output import Output, moment, money, note, warn
from clusterra_cli.usage import WrongUsage

if TYPE_CHECKING:
    from clusterra import Client
    from clusterra.sign_in.flows import SignedIn, Wanted

DEFAULT_CONTEXT = "default"


USUAL_SCOPES = ("profile", "clusters:read", "jobs:read", "jobs:write", "events:read", "files:read", "files:write")
"""What a machine may do for the person by default: all but managing members."""
Scopes = Annotated[
    list[str] | None,
    typer.Option(
        "--scope", help="What the token may be used for, such as members:write; by default all but managing members."
    ),
]

Insecure = Annotated[bool, typer.Option("--insecure", help="Send the token over plain HTTP, which others can read.")]


def add_to(command: typer.Typer) -> None:
    """Add these commands."""
    for each in (login, logout, whoami):
        command.command()(each)


def login(
    url: Annotated[
        str | None, typer.Argument(envvar="CLUSTERRA_URL", help="The gateway, such as https://clusterra.example.")
    ] = None,
    device: Annotated[
        bool, typer.Option("--device", help="Show a code that you enter in the browser of any machine.")
    ] = False,
    token_stdin: Annotated[
        bool, typer.Option("--token-stdin", help="Read a token from stdin, in place of signing in.")
    ] = False,
    context: Annotated[
        str | None, typer.Option("--context", help="The name of the context that is made, by default `default`.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", "-M", help="The cluster of the context, by default your only one.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=90, help="For how many days this machine is signed in.")] = 30,
    scopes: Scopes = None,
    insecure: Insecure = False,
) -> None:
    """Sign in this machine: by a browser here, by a code for another machine's browser, or with a token.

    The token is kept in the keyring, or else in a file that only you can read. With CLUSTERRA_TOKEN in the environment,
    nothing else is needed.
    """
    from clusterra import Client, credentials
    from clusterra import context as contexts

    address = checked_address(contexts.canonical_url(url or _address_of(context)), insecure=insecure)
    token = _read_token() if token_stdin else signed_in(address, device=device, days=days, scopes=scopes).token
    with Client(address, token) as client:
        profile = client.me()
        stored = contexts.load()
        before = next((each.cluster for each in stored.by_name.values() if each.url == address), None)
        chosen = cluster or before or _only_cluster(client)
    place = credentials.store(address, token)
    named = context or next((each.name for each in stored.by_name.values() if each.url == address), DEFAULT_CONTEXT)
    contexts.save(stored.having(contexts.Context(named, address, chosen)))
    note(f"{profile.email or profile.name} is signed in at {address}. The token is in {place.text}.")
    if chosen is None:
        note("choose a cluster: `clusterra clusters` lists them, `clusterra context set` takes one")
    if os.environ.get(credentials.TOKEN):
        warn(f"{credentials.TOKEN} is set, and goes before the stored token")


def checked_address(address: str, *, insecure: bool) -> str:
    """The address of a gateway to which a token may be sent. Raises WrongUsage."""
    from clusterra.context import is_private

    if not (insecure or is_private(address)):
        raise WrongUsage(f"{address} is not HTTPS", "take https://, or --insecure where nobody else can listen")
    return address


def _address_of(context: str | None) -> str:
    """The gateway of a stored context. Raises WrongUsage."""
    from clusterra.context import load

    stored = load()
    known = stored.by_name.get(context) if context else stored.chosen
    if known is None:
        raise WrongUsage("which gateway?", "for example: clusterra login https://clusterra.example")
    return known.url


def _read_token() -> str:
    token = sys.stdin.read(4096).strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise WrongUsage("there is no token on stdin")
    return token


def signed_in(url: str, *, device: bool, days: int, scopes: Sequence[str] | None = None, name: str = "") -> "SignedIn":
    """A new token, which the person has approved in a browser: of this machine, or with `device` of any."""
    from clusterra.sign_in.flows import Wanted

    wanted = Wanted(name, tuple(scopes or USUAL_SCOPES), days * 86400)
    return _by_code(url, wanted) if device else _by_browser(url, wanted)


def _by_browser(url: str, wanted: "Wanted") -> "SignedIn":
    import webbrowser

    from clusterra.sign_in.flows import loopback

    def opened(page: str) -> None:
        note(f"Approve the sign-in in your browser: {page}")
        if not webbrowser.open(page):
            note("No browser could be opened here. On a machine without one: clusterra login --device")

    return loopback(url, opened, wanted=wanted)


def _by_code(url: str, wanted: "Wanted") -> "SignedIn":
    from clusterra.sign_in.flows import DevicePrompt
    from clusterra.sign_in.flows import device as sign_in_by_code

    def shown(prompt: DevicePrompt) -> None:
        note(f"Open {prompt.verification_uri} in any browser, and enter the code {prompt.user_code}")

    return sign_in_by_code(url, shown, wanted=wanted)


def _only_cluster(client: "Client") -> str | None:
    from clusterra.errors import Forbidden

    try:
        found = client.clusters()
    except Forbidden:
        return None
    return found[0].id if len(found) == 1 else None


def logout(
    revoke: Annotated[bool, typer.Option("--revoke", help="Also revoke the token, wherever it is used.")] = False,
    url: Url = None,
) -> None:
    """Forget the token of this machine."""
    from clusterra import credentials

    with connected(url) as client:
        revoked = revoke and _revoke(client)
        forgotten = credentials.forget(client.url)
    if revoked:
        note(f"the token for {client.url} is revoked")
    note(f"the token for {client.url} is forgotten" if forgotten else f"no token is stored for {client.url}")
    if os.environ.get(credentials.TOKEN):
        warn(f"{credentials.TOKEN} is set, and still signs you in")


def _revoke(client: "Client") -> bool:
    """Revoke the token of the client, and return whether it was one of a person. Its text contains its id."""
    from clusterra import credentials

    token = credentials.find(client.url)
    known = [each.id for each in client.tokens() if token and f"_{each.id}_" in token]
    for token_id in known:
        client.revoke_token(token_id)
    if not known:
        warn("the token is none of a person, and stays valid: revoke it where it was made")
    return bool(known)


def whoami(json: Json = False, url: Url = None) -> None:
    """Show who you are, where, and what you spend."""
    output = Output(json)
    with connected(url) as client:
        profile = client.me()
        address = client.url
    if json:
        output.document(profile)
        return
    costs = profile.costs
    output.fields(
        {
            "name": profile.name,
            "email": profile.email,
            "workspace": f"{profile.tenant.name} ({profile.tenant.id})",
            "role": getattr(profile.role, "value", profile.role),
            "gateway": address,
            "signed in until": moment(profile.session_expires_at),
            "cost this month": "" if costs is None else money(costs.month_to_date),
            "cost an hour now": "" if costs is None else money(costs.burn_rate_per_hour),
        }
    )
