"""Reads requests of SCIM: bodies, queries, and the habits of the clients of Okta and of Entra ID."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any

from aiohttp import web
from pydantic import BeforeValidator, Field
from pydantic_core import from_json
from scim2_models import (
    Context,
    InvalidPathException,
    InvalidSyntaxException,
    InvalidValueException,
    PatchOp,
    PreconditionFailedException,
    Resource,
    ResponseParameters,
    ScimPolicy,
)

from clusterra_gateway.directory.scim.protocol import MEDIA_TYPE
from clusterra_gateway.http.requests.json_body import BodyBounds, read_json
from clusterra_gateway.http.requests.parameters import Parameter, Query

POLICY = ScimPolicy(
    unknown=ScimPolicy.Unknown.ignore,
    remove_value_as_filter=ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=ScimPolicy.UnmatchedPathFilter.create,
)
"""Attributes that Clusterra does not keep are left out. The others are habits of Entra ID."""
USER_BODY = BodyBounds(64 * 1024, 1000)
GROUP_BODY = BodyBounds(1024 * 1024, 20_000)
MAX_OPERATIONS = 50
"""The most operations of a PATCH."""
MAX_FILTER = 1000
"""The most characters of a filter."""
MAX_COUNT = 200
"""The most resources of a page."""
IF_MATCH = Parameter(
    "If-Match",
    "header",
    r'^(\*|(W/)?"[0-9]{1,19}")$',
    "The version that the change is for.",
    refuses=(HTTPStatus.PRECONDITION_FAILED,),
)
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


def _number(given: object) -> object:
    """Reads an index or a count. A negative one counts as the lowest (RFC 7644, section 3.4.2.4)."""
    if not isinstance(given, str) or _NUMBER.fullmatch(given) is None:
        return given
    return max(int(given), 0)


class AttributesQuery(Query):
    """Which attributes the answer has, separated by commas: these in place of all, or all but these."""

    attributes: Annotated[str | None, Field(max_length=1000)] = None
    excluded_attributes: Annotated[str | None, Field(max_length=1000, alias="excludedAttributes")] = None

    def parameters[R: Resource[Any]](self, model: type[R]) -> ResponseParameters[R] | None:
        """The attributes, as SCIM's library takes them. Raises pydantic's ValidationError."""
        given = {"attributes": self.attributes, "excludedAttributes": self.excluded_attributes}
        wanted = {name: value for name, value in given.items() if value}
        parameters: type[ResponseParameters[R]] = ResponseParameters.__class_getitem__(model)  # type: ignore[assignment]
        return parameters.model_validate(wanted) if wanted else None


class ListQuery(AttributesQuery):
    """Which part of a list. A list is always in the same order: `sortBy` has no effect."""

    filter: Annotated[str | None, Field(max_length=MAX_FILTER)] = None
    """An `eq` comparison of `userName` (of groups: `displayName`), `externalId` or `id`, alone or with others by
    `and`."""
    start_index: Annotated[int, BeforeValidator(_number), Field(alias="startIndex")] = 1
    """The index of the first resource, from 1."""
    count: Annotated[int, BeforeValidator(_number)] = 100
    """How many at most. More than 200 count as 200."""
    sort_by: Annotated[str | None, Field(max_length=200, alias="sortBy")] = None
    sort_order: Annotated[str | None, Field(max_length=20, alias="sortOrder")] = None


async def read_resource[R: Resource[Any]](request: web.Request, model: type[R], bounds: BodyBounds, ctx: Context) -> R:
    """Reads a whole resource. Raises InvalidRequest, TooLarge, UnsupportedMedia, pydantic's ValidationError."""
    content = _object(await _body(request, bounds))
    return await asyncio.to_thread(model.model_validate, content, scim_ctx=ctx, scim_policy=POLICY)


async def read_patch[R: Resource[Any]](request: web.Request, model: type[R], bounds: BodyBounds) -> PatchOp[R]:
    """Reads a PATCH. Raises as `read_resource`, and SCIMException."""
    return await asyncio.to_thread(parsed_patch, _object(await _body(request, bounds)), model)


def parsed_patch[R: Resource[Any]](content: Mapping[str, Any], model: type[R]) -> PatchOp[R]:
    """The PATCH of a body. Raises SCIMException, pydantic's ValidationError."""
    operations = content.get("Operations")
    if isinstance(operations, list):
        if len(operations) > MAX_OPERATIONS:
            raise InvalidValueException(detail=f"a PATCH has at most {MAX_OPERATIONS} operations: send several")
        if any(len(path) > MAX_FILTER for each in operations for path in _paths(each)):
            raise InvalidPathException(detail=f"a path has at most {MAX_FILTER} characters")
        content = {**content, "Operations": [_as_specified(each) for each in operations]}
    patch: type[PatchOp[R]] = PatchOp.__class_getitem__(model)
    return patch.model_validate(content, scim_ctx=Context.RESOURCE_PATCH_REQUEST, scim_policy=POLICY)


def applied[R: Resource[Any]](patch: PatchOp[R], resource: R) -> R:
    """A copy of the resource with the PATCH applied, which fits its schema as a whole.

    Raises SCIMException, pydantic's ValidationError.
    """
    changed = resource.model_copy(deep=True)
    patch.patch(changed, scim_policy=POLICY)
    model = type(resource)
    return model.model_validate(changed.model_dump(), scim_policy=POLICY)


def require_match(request_match: frozenset[str] | None, version: int) -> None:
    """Raises PreconditionFailedException where the client asked for another version of the resource."""
    if request_match is not None and not request_match & {"*", str(version)}:
        raise PreconditionFailedException(detail=f"the resource has version {version}: read it again")


def wanted_match(request: web.Request) -> frozenset[str] | None:
    """The versions of the request's `If-Match`; None where it has none."""
    given = request.if_match
    return None if given is None else frozenset(each.value for each in given)


async def _body(request: web.Request, bounds: BodyBounds) -> bytes:
    return await read_json(request, bounds, (MEDIA_TYPE, "application/json"))


def _object(content: bytes) -> dict[str, Any]:
    try:
        values = from_json(content)
    except ValueError:
        raise InvalidSyntaxException(detail="the body is no JSON") from None
    if not isinstance(values, dict):
        raise InvalidSyntaxException(detail="the body must be a JSON object")
    return values


def _paths(operation: Any) -> Iterator[str]:
    """The path of an operation, and the keys of its value, which may be paths as well."""
    if isinstance(operation, dict):
        if isinstance(path := operation.get("path"), str):
            yield path
        if isinstance(value := operation.get("value"), dict):
            yield from value


def _as_specified(operation: Any) -> Any:
    """An operation without two habits.

    Okta repeats the `id` in the value of an operation without a path. Entra ID names the members to remove with other
    attributes than their `value`, which may be null.
    """
    if not isinstance(operation, dict):
        return operation
    value = operation.get("value")
    if isinstance(value, dict) and not operation.get("path"):
        kept = {name: each for name, each in value.items() if name.lower() not in ("id", "meta", "schemas")}
        return {**operation, "value": kept}
    if str(operation.get("op")).lower() == "remove" and isinstance(value, list):
        entries = [{"value": each["value"]} if isinstance(each, dict) and "value" in each else each for each in value]
        return {**operation, "value": entries}
    return operation
