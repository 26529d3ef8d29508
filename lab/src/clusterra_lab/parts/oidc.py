"""Provides an OpenID Connect provider: from CLUSTERRA_OIDC_ISSUER, else NanoIDP, as a process or in a container."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from clusterra_lab.machine.built_image import built_image
from clusterra_lab.machine.container import Image, container
from clusterra_lab.machine.ports import kept_port
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.machine.progress import Progress, silent
from clusterra_lab.machine.secret_file import ensure_secret, write_secret
from clusterra_lab.parts.login import LoginRejected, log_in
from clusterra_lab.parts.tools import LOCK, tools_or_container

CLIENT_ID = "clusterra"
HOST = "127.0.0.1"
_START_SECONDS = 30.0
_DOCKERFILE = """\
FROM python:3.13-slim
COPY tools.lock /
RUN python3 -m venv /opt/tools \\
 && /opt/tools/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --requirement /tools.lock
"""


class Person(BaseModel):
    """A person who can log in; `subject` is the user name in the form and the `sub` claim."""

    model_config = ConfigDict(frozen=True)

    subject: str
    email: str
    name: str


class Login(Person):
    """A person, with the file of the password."""

    password_file: Path


@dataclass(frozen=True)
class Oidc:
    """The provider's issuer, the gateway's client at it, and the people who can log in."""

    issuer: str
    client_id: str
    client_secret_file: Path | None
    """None for a public client."""
    logins: Mapping[str, Login]
    """Email address -> login."""
    url: str | None = None
    """Where this machine reaches the issuer, if not at the issuer's own URL."""

    def environment(self) -> dict[str, str]:
        """The gateway's settings for this provider."""
        environment = {"CLUSTERRA_OIDC_ISSUER": self.issuer, "CLUSTERRA_OIDC_CLIENT_ID": self.client_id}
        if self.client_secret_file is not None:
            environment["CLUSTERRA_OIDC_CLIENT_SECRET_FILE"] = str(self.client_secret_file)
        return environment

    async def log_in(self, authorization_url: str, email: str) -> str:
        """Log the person in as a browser would and return the callback URL. Raises LoginRejected."""
        login = self.logins.get(email)
        if login is None:
            known = ", ".join(self.logins) or "nobody"
            raise LoginRejected(f"the lab has no password of {email}; it has those of: {known}")
        if self.url is not None:
            authorization_url = authorization_url.replace(self.issuer, self.url, 1)
        return await log_in(authorization_url, login.subject, login.password_file.read_text().strip())


@asynccontextmanager
async def oidc_provider(
    directory: Path,
    *,
    redirect_uris: Sequence[str],
    people: Sequence[Person],
    host: str = HOST,
    name: str | None = None,
    progress: Progress = silent,
) -> AsyncIterator[Oidc]:
    """Provide an OIDC provider until the block ends, with one confidential client limited to `redirect_uris`.

    A provider that runs as a process listens on `host`; `name` is that of the host in the issuer's URL, by default the
    same. The provider demands PKCE with S256. Passwords, the client's secret and the signing key stay in `directory`
    for the next start. An issuer from the environment has its own client (CLUSTERRA_OIDC_CLIENT_ID,
    CLUSTERRA_OIDC_CLIENT_SECRET_FILE) and, for scripted logins, its own people (CLUSTERRA_OIDC_LOGINS_FILE: a JSON
    array of `Login`).
    """
    if issuer := os.environ.get("CLUSTERRA_OIDC_ISSUER"):
        yield _given(issuer)
        return
    python = await tools_or_container(progress)
    if python is None:
        async with oidc_container(directory, redirect_uris=redirect_uris, people=people, progress=progress) as oidc:
            yield oidc
        return
    progress("starting the OIDC provider")
    # The port is kept, because it is part of the issuer's URL, by which a gateway identifies its users.
    port = kept_port(directory / "port")
    site = _Site(host, name or host, port)
    oidc = _configure(directory, site, redirect_uris, people, seen_as=directory / "config")
    argv = [str(python), "-m", "nanoidp", "--config", str(directory / "config"), "--port", str(port)]
    process = await start("oidc", argv, log=directory / "oidc.log")
    try:
        await _ready(oidc, process)
        yield oidc
    finally:
        await process.stop()


@asynccontextmanager
async def oidc_container(
    directory: Path, *, redirect_uris: Sequence[str], people: Sequence[Person], progress: Progress = silent
) -> AsyncIterator[Oidc]:
    """Run the provider of `oidc_provider` in a container, from an image that is built when missing."""
    files = {"Dockerfile": _DOCKERFILE, "tools.lock": LOCK.read_text()}
    name = await built_image("clusterra-lab-tools", files, "the OIDC provider", progress)
    port = kept_port(directory / "port")
    oidc = _configure(directory, _Site(HOST, HOST, port), redirect_uris, people, seen_as=Path("/app/config"))
    image = Image(
        name,
        ports={port: port},
        volumes={directory / "config": "/app/config"},
        command=[
            *("/opt/tools/bin/python", "-m", "nanoidp"),
            *("--config", "/app/config", "--host", "0.0.0.0", "--port", str(port)),
        ],
    )
    async with container(image):
        await _ready(oidc)
        yield oidc


@dataclass(frozen=True)
class _Site:
    host: str
    name: str
    port: int

    @property
    def issuer(self) -> str:
        return f"http://{self.name}:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


def _configure(
    directory: Path, site: _Site, redirect_uris: Sequence[str], people: Sequence[Person], *, seen_as: Path
) -> Oidc:
    logins = [Login(**person.model_dump(), password_file=directory / "passwords" / person.subject) for person in people]
    client_secret_file = directory / "client-secret"
    config = directory / "config"
    write_secret(
        config / "settings.yaml",
        settings(
            site.issuer,
            redirect_uris,
            host=site.host,
            keys=seen_as / "keys",
            client_secret=ensure_secret(client_secret_file),
            session_key=ensure_secret(directory / "session-key"),
            management_secret=ensure_secret(directory / "management-secret"),
        ),
    )
    write_secret(config / "users.yaml", users(logins))
    return Oidc(site.issuer, CLIENT_ID, client_secret_file, {login.email: login for login in logins}, site.url)


def settings(
    issuer: str,
    redirect_uris: Sequence[str],
    *,
    host: str,
    keys: Path,
    client_secret: str,
    session_key: str,
    management_secret: str,
) -> str:
    """NanoIDP's settings.yaml with the strictest checks; `keys` is the folder of its signing keys."""
    return yaml.safe_dump(
        {
            "config_version": 1,
            "config_validation": "strict",
            "security_profile": "oauth21",
            "server": {"host": host},
            "oauth": {
                "issuer": issuer,
                "audience": CLIENT_ID,
                "clients": [
                    {"client_id": CLIENT_ID, "client_secret": client_secret, "redirect_uris": list(redirect_uris)}
                ],
            },
            "jwt": {"keys_dir": str(keys)},
            "session": {"secret_key": session_key, "management_secret": management_secret},
            "logging": {"log_token_requests": False, "verbose_logging": False},
        }
    )


def users(logins: Sequence[Login]) -> str:
    """NanoIDP's users.yaml; missing passwords are generated."""
    return yaml.safe_dump(
        {
            "config_version": 1,
            "users": {
                login.subject: {
                    "password": ensure_secret(login.password_file),
                    "email": login.email,
                    "attributes": {"name": login.name},
                }
                for login in logins
            },
        }
    )


def _given(issuer: str) -> Oidc:
    client_secret_file = os.environ.get("CLUSTERRA_OIDC_CLIENT_SECRET_FILE")
    logins_file = os.environ.get("CLUSTERRA_OIDC_LOGINS_FILE")
    logins = TypeAdapter(tuple[Login, ...]).validate_json(Path(logins_file).read_bytes()) if logins_file else ()
    return Oidc(
        issuer,
        os.environ.get("CLUSTERRA_OIDC_CLIENT_ID", CLIENT_ID),
        Path(client_secret_file) if client_secret_file else None,
        {login.email: login for login in logins},
    )


async def _ready(oidc: Oidc, process: Process | None = None) -> None:
    async with aiohttp.ClientSession() as http:

        async def healthy() -> bool:
            try:
                async with http.get(f"{oidc.url or oidc.issuer}/health") as answer:
                    return answer.status == 200
            except aiohttp.ClientConnectionError:
                return False

        await until(healthy, seconds=_START_SECONDS, what="the OIDC provider", process=process)
