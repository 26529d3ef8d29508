"""The API server: the few calls that the substrate makes, with its answers as our models and its refusals as errors."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import aiohttp
from kubernetes.aio import client, config
from kubernetes.aio.client.rest import RESTResponse
from pydantic import Field, TypeAdapter, ValidationError

from clusterra_edge_agent.kubernetes.resources import (
    Deployment,
    Object,
    Page,
    Pod,
    Scale,
    Status,
    WatchError,
    WatchEvent,
)

_CALL = aiohttp.ClientTimeout(total=10.0)
_LIST = aiohttp.ClientTimeout(total=60.0)
_WATCH_SECONDS = 290
_WATCH = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=120.0)
"""The server sends a bookmark about once a minute: two missing ones mean that nobody is there any more."""
_SCALE = TypeAdapter(Scale)
_PAGE_SIZE = 500
_MERGE = "application/merge-patch+json"
_RETRY_AFTER_SECONDS = 1.0


class ApiError(Exception):
    """The API server did not do what was asked; the text says why."""


class Unavailable(ApiError):
    """It cannot be reached, or cannot answer now; what has become of the call is unknown."""


class Throttled(Unavailable):
    """It refused for now (429)."""

    def __init__(self, reason: str, *, retry_after_seconds: float) -> None:
        super().__init__(reason)
        self.retry_after_seconds = retry_after_seconds


class Conflict(ApiError):
    """The object is not any more what the call said it must be (409)."""


class Invalid(ApiError):
    """What the call asks for cannot be of this object (422)."""


class NotFound(ApiError):
    """There is no such object, or no such collection (404)."""


class Forbidden(ApiError):
    """The agent has no right to do this (403)."""


class Expired(ApiError):
    """The resource version is too old to go on from: list again (410)."""


@dataclass(frozen=True, slots=True)
class Collection[O: Object]:
    """Objects of one kind, in one namespace if they are in any, that a label selector takes."""

    path: str
    label: str
    model: type[O]
    fields: str = ""
    """A field selector for lists; a watch has none."""

    @property
    def kind(self) -> str:
        """What they are, in the plural as the API has it, such as `pods`."""
        return self.path.rpartition("/")[2]

    @classmethod
    def deployments(cls, namespace: str, label: str) -> "Collection[Deployment]":
        """Deployments."""
        return Collection(f"/apis/apps/v1/namespaces/{namespace}/deployments", label, Deployment)

    @classmethod
    def pods(cls, namespace: str, label: str) -> "Collection[Pod]":
        """Pods."""
        return Collection(f"/api/v1/namespaces/{namespace}/pods", label, Pod)


class Api:
    """One API server. All calls raise ApiError."""

    def __init__(self, api_client: client.ApiClient, namespace: str) -> None:
        self._client = api_client
        self.namespace = namespace

    async def list[O: Object](self, collection: Collection[O]) -> tuple[list[O], str]:
        """All objects of a moment, and its resource version to watch from."""
        found: list[O] = []
        version = ""
        async for page in self.pages(collection):
            found += page.items
            version = page.metadata.resource_version
        return found, version

    async def pages[O: Object](self, collection: Collection[O]) -> AsyncIterator[Page[O]]:
        """The same page by page, each with the version of all: so thousands of objects need not be held twice."""
        page_model: TypeAdapter[Page[O]] = TypeAdapter(Page[collection.model])  # type: ignore[name-defined]
        query: dict[str, str] = {"labelSelector": collection.label, "limit": str(_PAGE_SIZE)}
        if collection.fields:
            query["fieldSelector"] = collection.fields
        while True:
            page = _read(page_model, await self._call("GET", collection.path, query=query, timeout=_LIST))
            yield page
            if not page.metadata.continue_:
                return
            query["continue"] = page.metadata.continue_

    @asynccontextmanager
    async def watch[O: Object](
        self, collection: Collection[O], version: str
    ) -> AsyncIterator[AsyncIterator[WatchEvent[O]]]:
        """What happens to the objects after a resource version, until the server ends the watch, some minutes later.

        Bookmarks only tell a newer resource version. Raises Expired when the version is too old, also between events.
        """
        query = {
            "labelSelector": collection.label,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        response = await self._request("GET", collection.path, query=query, timeout=_WATCH)
        try:
            if response.status != 200:
                raise _error(response, await response.response.read())
            yield _events(collection, response.response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"a watch of {collection.path} broke: {error}") from error
        finally:
            response.response.close()

    async def scale(
        self, name: str, replicas: int, *, version: str | None = None, of: "Collection[Any] | None" = None
    ) -> Scale:
        """Set the replicas of a Deployment, or of one `of` another collection; with `version` only if it is still this.

        Raises Conflict, NotFound.
        """
        patch: dict[str, Any] = {"spec": {"replicas": replicas}}
        if version is not None:
            patch["metadata"] = {"resourceVersion": version}
        path = (of or Collection.deployments(self.namespace, "")).path
        path = f"{path}/{name}/scale"
        return _read(_SCALE, await self._call("PATCH", path, body=patch, content_type=_MERGE))

    async def set_deletion_cost(self, pod: Pod, cost: int) -> Pod:
        """Mark a pod, or with 0 take its mark away. Raises Invalid when its name has become another's, NotFound."""
        annotations = {pod.cost_annotation: str(cost) if cost else None}
        patch = {"metadata": {"uid": pod.metadata.uid, "annotations": annotations}}
        return _read(
            TypeAdapter(type(pod)), await self._call("PATCH", self._pod(pod.name), body=patch, content_type=_MERGE)
        )

    async def delete(self, pod: Pod) -> Pod:
        """Delete a pod, with its own grace time. Raises Conflict when its name has become another's, NotFound."""
        return _read(TypeAdapter(type(pod)), await self._call("DELETE", self._pod(pod.name), body=_only(pod)))

    async def delete_of(self, collection: Collection[Any], found: Object) -> None:
        """Delete an object of a collection. Raises Conflict when its name has become another's, NotFound."""
        await self._call("DELETE", f"{collection.path}/{found.name}", body=_only(found))

    async def replace[O: Object](self, collection: Collection[O], found: O, spec: dict[str, Any]) -> O:
        """Set fields of an object's spec if it is still as it was found. Raises Conflict, Invalid, NotFound."""
        patch = {"metadata": {"resourceVersion": found.metadata.resource_version}, "spec": spec}
        path = f"{collection.path}/{found.name}"
        return _read(TypeAdapter(collection.model), await self._call("PATCH", path, body=patch, content_type=_MERGE))

    async def is_guarded(self, pod: Pod) -> bool:
        """Whether the API server refuses to let anybody delete this pod; nothing is deleted. Raises NotFound."""
        try:
            await self._call("DELETE", self._pod(pod.name), body={**_only(pod), "dryRun": ["All"]})
        except Invalid:
            # By an admission policy; a missing right is Forbidden.
            return True
        return False

    def _pod(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{name}"

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        timeout: aiohttp.ClientTimeout = _CALL,
    ) -> bytes:
        response = await self._request(method, path, query=query, body=body, content_type=content_type, timeout=timeout)
        try:
            answer: bytes = await response.response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"the answer to {method} {path} broke off: {error}") from error
        if response.status >= 300:
            raise _error(response, answer)
        return answer

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        timeout: aiohttp.ClientTimeout,
    ) -> RESTResponse:
        serialized = await self._client.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json", "Content-Type": content_type},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            return await self._client.call_api(*serialized, _request_timeout=timeout)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"{method} {path}: {error or type(error).__name__}") from error


@asynccontextmanager
async def connected(namespace: str, kubeconfig: Path | None) -> AsyncIterator[Api]:
    """The API server of a kubeconfig, or of the pod that this runs in, as its ServiceAccount. Raises ApiError."""
    configuration = client.Configuration()
    try:
        if kubeconfig is not None:
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(kubeconfig), client_configuration=configuration
            )
        else:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except config.ConfigException as error:
        raise ApiError(f"no way to the API server: {error}") from error
    async with client.ApiClient(configuration) as api_client:
        yield Api(api_client, namespace)


async def _events[O: Object](
    collection: Collection[O], response: aiohttp.ClientResponse
) -> AsyncIterator[WatchEvent[O]]:
    event_model = WatchEvent[collection.model]  # type: ignore[name-defined]
    line_model: TypeAdapter[WatchEvent[O] | WatchError] = TypeAdapter(
        Annotated[event_model | WatchError, Field(discriminator="type")]
    )
    async for line in response.content:
        event = _read(line_model, line)
        if isinstance(event, WatchError):
            raise _of_status(event.object.code, event.object.message, None)
        yield event


def _only(found: Object) -> dict[str, Any]:
    """Options of a deletion that is meant for no other object of this name."""
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": found.metadata.uid}}


def _read[M](model: TypeAdapter[M], body: bytes) -> M:
    try:
        return model.validate_json(body)
    except ValidationError as error:
        raise Unavailable(f"an answer of the API server cannot be read: {error}") from error


def _error(response: RESTResponse, body: bytes) -> ApiError:
    try:
        message = Status.model_validate_json(body).message
    except ValidationError:
        message = body[:200].decode(errors="replace")
    return _of_status(response.status, message, response.headers.get("Retry-After"))


def _of_status(code: int, message: str, retry_after: str | None) -> ApiError:
    match code:
        case 403:
            return Forbidden(f"403: {message}")
        case 404:
            return NotFound(message)
        case 409:
            return Conflict(message)
        case 410:
            return Expired(message)
        case 422:
            return Invalid(message)
        case 429:
            seconds = float(retry_after) if retry_after and retry_after.isdigit() else _RETRY_AFTER_SECONDS
            return Throttled(message, retry_after_seconds=seconds)
        case _ if code >= 500 or code == 0:
            return Unavailable(f"{code}: {message}")
        case _:
            return ApiError(f"{code}: {message}")
