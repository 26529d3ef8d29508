"""A gateway as programs with asyncio reach it: `clusterra.gateway` with `await`."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from pydantic import BaseModel

from clusterra.credentials import Credentials
from clusterra.exchange import Answer, Method
from clusterra.http.async_transport import AsyncTransport
from clusterra.http.endpoint import Endpoint, OnRetry, ignore
from clusterra.operations import pages
from clusterra.operations.api import Api, Value, any_request
from clusterra.target import chosen_target


class AsyncGateway:
    """A gateway, and what any program may ask of it. Clients add the operations."""

    def __init__(
        self,
        url: str | None = None,
        token: str | Credentials | None = None,
        *,
        cluster: str | None = None,
        timeout: float = 30.0,
        on_retry: OnRetry = ignore,
    ) -> None:
        """What is not given is taken from CLUSTERRA_URL, CLUSTERRA_TOKEN and CLUSTERRA_CLUSTER, or the stored context.

        `timeout` is the longest silence of the gateway in seconds. `on_retry` is called before each pause after which
        a request is sent again. Raises ConfigError where no gateway is known.
        """
        target = chosen_target(url, token, cluster)
        self._api = Api(target.url, target.cluster)
        self._transport = AsyncTransport(Endpoint(target.url, target.credentials, timeout), on_retry)

    @property
    def url(self) -> str:
        """The gateway's address."""
        return self._api.url

    @property
    def cluster(self) -> str | None:
        """The cluster that is meant where none is named."""
        return self._api.cluster

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def request(
        self, method: Method, path: str, *, query: Mapping[str, Value] | None = None, body: object = None
    ) -> Answer:
        """Send any request of the API, such as `(await client.request("GET", "/v1/users/me")).json`.

        `{cluster}` in a path is the client's cluster. `body` is sent as JSON, and bytes as they are. A POST gets an
        Idempotency-Key, and is safe to be sent again.
        """
        return await self._transport.run(self._api.sent(any_request(self._api, method, path, query, body)))

    async def fetch[M: BaseModel](
        self,
        model: type[M],
        method: Method,
        path: str,
        *,
        query: Mapping[str, Value] | None = None,
        body: object = None,
        key: str | None = None,
    ) -> M:
        """Send any request of the API, and return its answer as a model of `clusterra.models`, or one of your own.

        `await client.fetch(Run, "GET", "/v1/clusters/{cluster}/runs/…")` is one run. `key` is the Idempotency-Key of a
        POST, in place of a new one. Raises NotClusterra for an answer of another shape.
        """
        request = replace(any_request(self._api, method, path, query, body), idempotency_key=key)
        return await self._transport.run(self._api.read(model, request))

    def path(self, path: str) -> str:
        """A path in which `{cluster}` is the client's cluster. Raises ConfigError where it has none, and ValueError."""
        return self._api.placed(path)

    def pages[M: BaseModel](
        self, model: type[M], path: str, *, query: Mapping[str, Value] | None = None, limit: int | None = None
    ) -> AsyncGenerator[M]:
        """The items of a list of any route, such as `client.pages(Run, "/v1/clusters/{cluster}/runs")`.

        A page is read when it is needed. At most `limit` items; `limit` in `query` is the size of a page.
        """
        request = any_request(self._api, "GET", path, query, None)
        return self._transport.iterate(pages.listed(self._api, model, request, limit))
