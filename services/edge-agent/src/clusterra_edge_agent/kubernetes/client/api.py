"""The API server: the few calls that the substrate makes, with its answers as our models and its refusals as errors."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import aiohttp
from kubernetes.aio import client, config
from kubernetes.aio.client.rest import RESTResponse
from pydantic import Field, TypeAdapter, ValidationError

from clusterra_edge_agent.kubernetes.client.errors import (
    ApiError,
    Invalid,
    NotHolder,
    Unavailable,
    refusal,
    refusal_of,
)
from clusterra_edge_agent.kubernetes.client.resources import (
    Deployment,
    Object,
    Page,
    Pod,
    Scale,
    WatchError,
    WatchEvent,
)
from clusterra_edge_agent.substrate.leadership import Leadership, Sole

CHANGE_SECONDS = 4.0
"""The longest that a change may take; `tenure` says why."""
_CALL = aiohttp.ClientTimeout(total=10.0)
_LIST = aiohttp.ClientTimeout(total=60.0)
_WATCH_SECONDS = 290
_WATCH = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=120.0)
"""The server sends a bookmark about once a minute: two missing ones mean that nobody is there any more."""
_SCALE = TypeAdapter(Scale)
_PAGE_SIZE = 500
_MERGE = "application/merge-patch+json"


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
    """One API server. All calls raise ApiError; those that change something raise NotHolder while another may act."""

    def __init__(self, api_client: client.ApiClient, namespace: str, leadership: Leadership | None = None) -> None:
        self._client = api_client
        self.namespace = namespace
        self.leadership: Leadership = leadership or Sole()

    def led_by(self, leadership: Leadership) -> "Api":
        """The same for an agent that acts only sometimes."""
        return Api(self._client, self.namespace, leadership)

    async def get[O: Object](self, collection: Collection[O], name: str) -> O:
        """One object. Raises NotFound."""
        return _read(TypeAdapter(collection.model), await self._call("GET", f"{collection.path}/{name}"))

    async def create[O: Object](self, collection: Collection[O], name: str, spec: dict[str, Any]) -> O:
        """Make an object. Raises Conflict when there is one of this name."""
        body = {"metadata": {"name": name}, "spec": spec}
        return _read(TypeAdapter(collection.model), await self._change("POST", collection.path, body=body))

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
                raise _refused(response, await response.response.read())
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
        return _read(_SCALE, await self._change("PATCH", path, body=patch, content_type=_MERGE))

    async def set_deletion_cost(self, pod: Pod, cost: int) -> Pod:
        """Mark a pod, or with 0 take its mark away. Raises Invalid when its name has become another's, NotFound."""
        annotations = {pod.cost_annotation: str(cost) if cost else None}
        patch = {"metadata": {"uid": pod.metadata.uid, "annotations": annotations}}
        return _read(
            TypeAdapter(type(pod)), await self._change("PATCH", self._pod(pod.name), body=patch, content_type=_MERGE)
        )

    async def delete(self, pod: Pod) -> Pod:
        """Delete a pod, with its own grace time. Raises Conflict when its name has become another's, NotFound."""
        return _read(TypeAdapter(type(pod)), await self._change("DELETE", self._pod(pod.name), body=_only(pod)))

    async def delete_of(self, collection: Collection[Any], found: Object) -> None:
        """Delete an object of a collection. Raises Conflict when its name has become another's, NotFound."""
        await self._change("DELETE", f"{collection.path}/{found.name}", body=_only(found))

    async def replace[O: Object](self, collection: Collection[O], found: O, spec: dict[str, Any]) -> O:
        """Set fields of an object's spec if it is still as it was found. Raises Conflict, Invalid, NotFound."""
        patch = {"metadata": {"resourceVersion": found.metadata.resource_version}, "spec": spec}
        path = f"{collection.path}/{found.name}"
        return _read(TypeAdapter(collection.model), await self._change("PATCH", path, body=patch, content_type=_MERGE))

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

    async def _change(self, method: str, path: str, *, body: object, content_type: str = "application/json") -> bytes:
        try:
            async with asyncio.timeout(CHANGE_SECONDS):
                if not self.leadership.held:
                    raise NotHolder("another agent may act now, for this one does not hold the Lease of the cluster")
                return await self._call(method, path, body=body, content_type=content_type)
        except TimeoutError:
            raise Unavailable(f"{method} {path} was not answered within {CHANGE_SECONDS:g} s") from None

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
            raise _refused(response, answer)
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
            raise refusal_of(event.object.code, event.object.message, None)
        yield event


def _only(found: Object) -> dict[str, Any]:
    """Options of a deletion that is meant for no other object of this name."""
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": found.metadata.uid}}


def _read[M](model: TypeAdapter[M], body: bytes) -> M:
    try:
        return model.validate_json(body)
    except ValidationError as error:
        raise Unavailable(f"an answer of the API server cannot be read: {error}") from error


def _refused(response: RESTResponse, body: bytes) -> ApiError:
    return refusal(response.status, body, response.headers.get("Retry-After"))
