"""The client of the API server: the few calls that the substrate makes, with models of answers and errors."""

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
    error_of_answer,
    error_of_status,
)
from clusterra_edge_agent.kubernetes.client.resources import (
    Deployment,
    Object,
    Page,
    Pod,
    PodAddress,
    Scale,
    WatchError,
    WatchEvent,
)
from clusterra_edge_agent.substrate.leadership import Leadership, Sole

CHANGE_SECONDS = 4.0
"""Time limit of a change; `election.record` explains it."""
_CALL = aiohttp.ClientTimeout(total=10.0)
_LIST = aiohttp.ClientTimeout(total=60.0)
_WATCH_SECONDS = 290
_WATCH = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=120.0)
"""The server sends a bookmark about once a minute. Two missing bookmarks mean that the connection is dead."""
_SCALE = TypeAdapter(Scale)
_PAGE_SIZE = 500
_MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Collection[O: Object]:
    """Objects of one kind that match a label selector, in one namespace unless the kind is cluster-wide."""

    path: str
    label: str
    model: type[O]
    fields: str = ""
    """A field selector for lists. Watches do not use it."""

    @property
    def kind(self) -> str:
        """The API's plural name of the kind, such as `pods`."""
        return self.path.rpartition("/")[2]

    @classmethod
    def deployments(cls, namespace: str, label: str) -> "Collection[Deployment]":
        """Returns the Deployments with this label selector."""
        return Collection(f"/apis/apps/v1/namespaces/{namespace}/deployments", label, Deployment)

    @classmethod
    def pods(cls, namespace: str, label: str) -> "Collection[Pod]":
        """Returns the pods with this label selector."""
        return Collection(f"/api/v1/namespaces/{namespace}/pods", label, Pod)

    @classmethod
    def pod_address(cls, namespace: str, name: str) -> "Collection[PodAddress]":
        """Returns one pod as those see it who want to connect to it. The agent may list pods, and get none."""
        return Collection(f"/api/v1/namespaces/{namespace}/pods", "", PodAddress, f"metadata.name={name}")


class Api:
    """One API server. All calls raise ApiError; changes raise NotHolder while another agent may act."""

    def __init__(self, api_client: client.ApiClient, namespace: str, leadership: Leadership | None = None) -> None:
        self._client = api_client
        self.namespace = namespace
        self.leadership: Leadership = leadership or Sole()

    def led_by(self, leadership: Leadership) -> "Api":
        """Returns a client whose changes require this leadership."""
        return Api(self._client, self.namespace, leadership)

    async def get[O: Object](self, collection: Collection[O], name: str) -> O:
        """Returns one object. Raises NotFound."""
        return _read(TypeAdapter(collection.model), await self._call("GET", f"{collection.path}/{name}"))

    async def create[O: Object](self, collection: Collection[O], name: str, spec: dict[str, Any]) -> O:
        """Creates an object. Raises Conflict when an object of this name exists."""
        body = {"metadata": {"name": name}, "spec": spec}
        return _read(TypeAdapter(collection.model), await self._change("POST", collection.path, body=body))

    async def list[O: Object](self, collection: Collection[O]) -> tuple[list[O], str]:
        """Returns all objects at one moment, and the resource version from which to watch."""
        found: list[O] = []
        version = ""
        async for page in self.pages(collection):
            found += page.items
            version = page.metadata.resource_version
        return found, version

    async def pages[O: Object](self, collection: Collection[O]) -> AsyncIterator[Page[O]]:
        """Yields the list in pages, each with the list's version, so that thousands of objects are not held twice."""
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
        """Yields the changes after a resource version, until the server ends the watch after some minutes.

        Bookmarks only carry a newer resource version. Raises Expired when the version is too old, also between events.
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
                raise _error_of(response, await response.response.read())
            yield _events(collection, response.response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"the watch of {collection.path} was interrupted: {error}") from error
        finally:
            response.response.close()

    async def scale(
        self, name: str, replicas: int, *, version: str | None = None, of: "Collection[Any] | None" = None
    ) -> Scale:
        """Sets the replicas of a Deployment, or of an object `of` another collection.

        With `version`, only if the object still has this resource version. Raises Conflict, NotFound.
        """
        patch: dict[str, Any] = {"spec": {"replicas": replicas}}
        if version is not None:
            patch["metadata"] = {"resourceVersion": version}
        path = (of or Collection.deployments(self.namespace, "")).path
        path = f"{path}/{name}/scale"
        return _read(_SCALE, await self._change("PATCH", path, body=patch, content_type=_MERGE))

    async def set_deletion_cost(self, pod: Pod, cost: int) -> Pod:
        """Marks a pod with a deletion cost; 0 removes the mark. Raises NotFound, or Invalid when the name is reused."""
        annotations = {pod.cost_annotation: str(cost) if cost else None}
        if not cost:
            annotations |= dict.fromkeys(pod.leftover_annotations)
        patch = {"metadata": {"uid": pod.metadata.uid, "annotations": annotations}}
        return _read(
            TypeAdapter(type(pod)), await self._change("PATCH", self._pod(pod.name), body=patch, content_type=_MERGE)
        )

    async def delete(self, pod: Pod) -> Pod:
        """Deletes a pod with its own grace period. Raises NotFound, or Conflict when the name is reused."""
        return _read(TypeAdapter(type(pod)), await self._change("DELETE", self._pod(pod.name), body=_only(pod)))

    async def delete_of(self, collection: Collection[Any], found: Object) -> None:
        """Deletes an object of a collection if it is unchanged. Raises NotFound, or Conflict when it has changed."""
        options = _only(found)
        options["preconditions"]["resourceVersion"] = found.metadata.resource_version
        await self._change("DELETE", f"{collection.path}/{found.name}", body=options)

    async def replace[O: Object](self, collection: Collection[O], found: O, spec: dict[str, Any]) -> O:
        """Sets fields of an object's spec if the object is unchanged. Raises Conflict, Invalid, NotFound."""
        patch = {"metadata": {"resourceVersion": found.metadata.resource_version}, "spec": spec}
        path = f"{collection.path}/{found.name}"
        return _read(TypeAdapter(collection.model), await self._change("PATCH", path, body=patch, content_type=_MERGE))

    async def deletion_denied(self, pod: Pod) -> bool:
        """Whether the API server denies everybody the deletion of this pod, by a dry run. Raises NotFound."""
        try:
            await self._call("DELETE", self._pod(pod.name), body={**_only(pod), "dryRun": ["All"]})
        except Invalid:
            # Denied by an admission policy. A missing permission would be Forbidden.
            return True
        return False

    def _pod(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{name}"

    async def _change(self, method: str, path: str, *, body: object, content_type: str = "application/json") -> bytes:
        try:
            async with asyncio.timeout(CHANGE_SECONDS):
                if not self.leadership.held:
                    raise NotHolder("this agent does not hold the Lease of the cluster, so another one may act now")
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
            raise Unavailable(f"the answer to {method} {path} was interrupted: {error}") from error
        if response.status >= 300:
            raise _error_of(response, answer)
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
    """Yields the client of an API server, from a kubeconfig or as the ServiceAccount of this pod. Raises ApiError."""
    configuration = client.Configuration()
    try:
        if kubeconfig is not None:
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(kubeconfig), client_configuration=configuration
            )
        else:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except config.ConfigException as error:
        raise ApiError(f"cannot connect to the API server: {error}") from error
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
            raise error_of_status(event.object.code, event.object.message, None)
        yield event


def _only(found: Object) -> dict[str, Any]:
    """Returns the options of a deletion that applies only to this very object, not to another of its name."""
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": found.metadata.uid}}


def _read[M](model: TypeAdapter[M], body: bytes) -> M:
    try:
        return model.validate_json(body)
    except ValidationError as error:
        raise Unavailable(f"invalid answer from the API server: {error}") from error


def _error_of(response: RESTResponse, body: bytes) -> ApiError:
    return error_of_answer(response.status, body, response.headers.get("Retry-After"))
