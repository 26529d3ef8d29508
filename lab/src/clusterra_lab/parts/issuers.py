"""Provides several OpenID Connect issuers, which behave as Google, Okta and Entra ID do, in front of one provider."""

import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import Process, start, until
from clusterra_lab.parts.issuer_behaviour import Behaviour, Front
from clusterra_lab.parts.oidc import HOST, Oidc, Person, oidc_provider

_START_SECONDS = 30.0


@dataclass(frozen=True)
class PlayedIssuer:
    """A running issuer."""

    given: Front
    process: Process
    provider: Oidc

    @property
    def issuer(self) -> str:
        """The issuer that clients are configured with."""
        return self.given.issuer

    async def log_in(self, authorization_url: str, email: str) -> str:
        """Log a person in as a browser would, and return the callback URL. Raises LoginRejected."""
        async with aiohttp.ClientSession() as browser:
            to_provider = await _sent_to(browser, authorization_url)
            back = await self.provider.log_in(to_provider, email)
            return await _sent_to(browser, back)

    def rotate_keys(self) -> None:
        """Make a new key sign from now on."""
        self.process.signal(signal.SIGHUP)

    async def kill(self) -> None:
        """End the issuer, as an outage does."""
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def played_issuers(
    directory: Path, behaviours: Mapping[str, Behaviour], people: Sequence[Person], redirect_uris: Mapping[str, str]
) -> AsyncIterator[dict[str, PlayedIssuer]]:
    """Run an issuer for each behaviour until the block ends, by their names, each with one confidential client.

    All of them have the same people, who sign in at one provider behind. Raises LabProblem, TimeoutError.
    """
    ports = {name: free_port() for name in behaviours}
    callbacks = [f"http://{HOST}:{port}/callback" for port in ports.values()]
    async with (
        oidc_provider(directory / "provider", redirect_uris=callbacks, people=people) as provider,
        AsyncExitStack() as running,
    ):
        if provider.client_secret_file is None:
            raise ValueError("the provider's client is public, and these issuers need a confidential one")
        issuers: dict[str, PlayedIssuer] = {}
        for name, behaviour in behaviours.items():
            given = Front(
                host=HOST,
                port=ports[name],
                behaviour=behaviour,
                provider=provider.issuer,
                client_id=provider.client_id,
                client_secret_file=provider.client_secret_file,
                redirect_uri=redirect_uris[name],
            )
            (directory / f"{name}.json").write_text(given.model_dump_json())
            argv = [sys.executable, "-m", "clusterra_lab.parts.issuer_front", str(directory / f"{name}.json")]
            process = await start(name, argv, log=directory / f"{name}.log")
            running.push_async_callback(process.stop)
            issuers[name] = PlayedIssuer(given, process, provider)
        for issuer in issuers.values():
            await _ready(issuer)
        yield issuers


async def _sent_to(browser: aiohttp.ClientSession, address: str) -> str:
    async with browser.get(address, allow_redirects=False) as answer:
        if answer.status != 302:
            raise RuntimeError(f"{address.partition('?')[0]} answered {answer.status}: {await answer.text()}")
        return answer.headers["Location"]


async def _ready(issuer: PlayedIssuer) -> None:
    async with aiohttp.ClientSession() as http:

        async def answers() -> bool:
            try:
                async with http.get(f"{issuer.issuer}/.well-known/openid-configuration") as answer:
                    return answer.status == 200
            except aiohttp.ClientConnectionError:
                return False

        await until(answers, seconds=_START_SECONDS, what=f"the issuer {issuer.process.name}", process=issuer.process)
