"""A user of the HTTP API, who logs in through the OIDC provider and calls the gateway like any client."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from aiohttp import ClientResponse, ClientSession, ClientTimeout, CookieJar
from clusterra_contracts.events import Event
from clusterra_contracts.rpc.history import HistoryPage
from clusterra_contracts.rpc.why import Explanation
from pydantic import BaseModel, ConfigDict

from clusterra_lab.parts.api_errors import UnavailableError, UnexpectedAnswerError
from clusterra_lab.parts.patience import patiently
from clusterra_lab.parts.sse import ServerSentEvent, events

LogIn = Callable[[str], Awaitable[str]]
"""Takes an authorisation URL through the provider's form and returns the callback URL."""


class JobExplanation(Explanation):
    """What the gateway tells of a job: the scaler's explanation, or how the job ended."""

    state: Literal["pending", "running", "ended"]  # type: ignore[assignment]  # the gateway knows one more
    final_state: str | None = None


_UNAVAILABLE = (502, 503, 504)


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Profile(_Answer):
    """The fields of `GET /v1/users/me` that the lab uses."""

    name: str
    uid: int
    email: str


class ApiToken(_Answer):
    """The answer to a request for an API token."""

    id: str
    token: str


class SubmittedJob(_Answer):
    """The answer to a submit."""

    job_id: str
    accepted_at: datetime


class JobState(_Answer):
    """The fields of a job that the lab uses."""

    job_id: str
    name: str
    state: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class User:
    """A logged-in browser session."""

    session: ClientSession
    profile: Profile
    cluster: str

    async def submit(self, script: str, job: dict[str, Any], *, key: str | None = None) -> SubmittedJob:
        """Submit a script with slurmrestd's job fields. Raises UnexpectedAnswerError."""
        headers = {"Idempotency-Key": key} if key else {}
        body = {"script": script, "job": {"environment": ["PATH=/usr/bin:/bin"], **job}}
        path = f"/v1/clusters/{self.cluster}/jobs/submit"
        async with self.session.post(path, json=body, headers=headers) as response:
            return SubmittedJob.model_validate(await _expect(response, 200, 201))

    async def job(self, job_id: str) -> JobState:
        """Read one job."""
        async with self.session.get(f"/v1/clusters/{self.cluster}/jobs/{job_id}") as response:
            return JobState.model_validate(await _expect(response, 200))

    async def why(self, job_id: str) -> JobExplanation:
        """Explain why a job waits, where it runs, or how it ended. Raises UnavailableError, UnexpectedAnswerError."""
        async with self.session.get(f"/v1/clusters/{self.cluster}/jobs/{job_id}/why") as response:
            return JobExplanation.model_validate(await _expect(response, 200))

    async def cancel(self, job_id: str) -> None:
        """Cancel a job."""
        async with self.session.delete(f"/v1/clusters/{self.cluster}/jobs/{job_id}") as response:
            await _check(response, 204)

    async def output(self, job_id: str) -> str:
        """Read the job's standard output so far. Raises UnavailableError, UnexpectedAnswerError."""
        async with self.session.get(f"/v1/clusters/{self.cluster}/jobs/{job_id}/output") as response:
            await _check(response, 200)
            return await response.text()

    def follow(self, job_id: str, *, after: str = "") -> AsyncIterator[ServerSentEvent]:
        """Stream the job's output as it grows, until the `end` event; `after` is the last id that was received."""
        return self._stream(f"/v1/clusters/{self.cluster}/jobs/{job_id}/output/stream", after)

    def activity(self, *, after: str = "") -> AsyncIterator[ServerSentEvent]:
        """Stream the cluster's events as they happen; the stream does not end by itself."""
        return self._stream(f"/v1/clusters/{self.cluster}/events/stream", after)

    async def history(self, kind: str) -> list[Event]:
        """Read all archived events of a kind, such as `job.*`. Asks again while the archive does not answer.

        Raises UnavailableError, UnexpectedAnswerError.
        """
        found: list[Event] = []
        query = {"kind": kind, "limit": "500"}

        async def read() -> HistoryPage:
            async with self.session.get(f"/v1/clusters/{self.cluster}/events", params=query) as response:
                return HistoryPage.model_validate(await _expect(response, 200))

        while True:
            page = await patiently(read)
            found += page.events
            if page.cursor is None:
                return found
            query["cursor"] = page.cursor

    @asynccontextmanager
    async def api_token(self, name: str) -> AsyncIterator[str]:
        """An API token of the user, revoked when the block ends. Raises UnexpectedAnswerError."""
        async with self.session.post("/v1/users/me/tokens", json={"name": name}) as response:
            made = ApiToken.model_validate(await _expect(response, 201))
        yield made.token
        async with self.session.delete(f"/v1/users/me/tokens/{made.id}") as response:
            await _check(response, 204)

    async def service_account_key(self, name: str, role: str = "admin") -> str:
        """A key of a new service account, which is not removed. Raises UnexpectedAnswerError."""
        accounts = "/v1/service-accounts"
        async with self.session.post(accounts, json={"name": name, "role": role}) as response:
            account = (await _expect(response, 201))["name"]
        async with self.session.post(f"{accounts}/{account}/keys", json={"name": "key"}) as response:
            return str((await _expect(response, 201))["token"])

    async def _stream(self, path: str, after: str) -> AsyncIterator[ServerSentEvent]:
        headers = {"Last-Event-ID": after} if after else {}
        async with self.session.get(path, headers=headers, timeout=ClientTimeout(total=None)) as response:
            await _check(response, 200)
            async for event in events(response):
                yield event


async def _expect(response: ClientResponse, *statuses: int) -> Any:
    await _check(response, *statuses)
    return await response.json()


async def _check(response: ClientResponse, *statuses: int) -> None:
    if response.status not in statuses:
        later = response.status in _UNAVAILABLE or (response.status == 409 and "Retry-After" in response.headers)
        kind = UnavailableError if later else UnexpectedAnswerError
        raise kind(f"{response.method} {response.url.path}: {response.status}: {await response.text()}")


@asynccontextmanager
async def logged_in(gateway_url: str, cluster: str, log_in: LogIn) -> AsyncIterator[User]:
    """Log in by the code flow: the gateway's redirect, the provider's form, the callback.

    Raises UnexpectedAnswerError and the errors of `log_in`.
    """
    # The lab's gateway has an IP address as its host; a jar keeps cookies of such hosts only with `unsafe`.
    async with ClientSession(gateway_url, cookie_jar=CookieJar(unsafe=True)) as session:
        async with session.get("/v1/auth/login", allow_redirects=False) as response:
            if response.status not in (302, 303, 307):
                raise UnexpectedAnswerError(f"login answered {response.status}: {await response.text()}")
            callback = await log_in(response.headers["Location"])
        async with session.get(callback, allow_redirects=False) as response:
            if response.status >= 400:
                raise UnexpectedAnswerError(f"callback answered {response.status}: {await response.text()}")
        async with session.get("/v1/users/me") as response:
            profile = Profile.model_validate(await _expect(response, 200))
        yield User(session, profile, cluster)
