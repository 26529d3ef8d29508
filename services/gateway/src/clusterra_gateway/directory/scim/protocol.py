"""The form of SCIM's answers: its media type, its errors, its lists."""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import orjson
from aiohttp import ETag, web
from pydantic import ValidationError
from scim2_models import BaseModel as ScimModel
from scim2_models import Context, Error, ResponseParameters, SCIMException

from clusterra_gateway.http.answers.problems import RETRY_AFTER_SECONDS, STATUS
from clusterra_gateway.http.answers.responses import COMPRESSED_ON_THREAD_FROM_BYTES, NO_STORE
from clusterra_gateway.http.requests.errors import RequestError

MEDIA_TYPE = "application/scim+json"
MAX_DETAIL = 500


def scim_response(
    content: Mapping[str, Any],
    *,
    status: int = HTTPStatus.OK,
    version: int | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> web.Response:
    """SCIM content that is dumped already. `version` is that of a resource: its ETag."""
    response = web.Response(
        body=orjson.dumps(content),
        status=status,
        content_type=MEDIA_TYPE,
        headers={**NO_STORE, **headers},
        zlib_executor_size=COMPRESSED_ON_THREAD_FROM_BYTES,
    )
    if version is not None:
        response.etag = ETag(str(version), is_weak=True)
    return response


def dumped(model: ScimModel, parameters: ResponseParameters[Any] | None = None) -> dict[str, Any]:
    """A model as an answer has it, with the attributes that the client asked for."""
    return model.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE, response_parameters=parameters)


def error_response(error: RequestError) -> web.Response:
    """The answer to a request that failed for a reason that SCIM has no keyword for."""
    status, headers = STATUS[type(error)], {}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    elif status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    detail = f"{error.detail}: {error.hint}" if error.hint else error.detail
    return scim_response(dumped(Error(status=status, detail=detail)), status=status, headers=headers)


def scim_error_response(exception: SCIMException) -> web.Response:
    """The answer to a request that failed for a reason of SCIM's own."""
    if isinstance(exception.__cause__, ValidationError):
        return invalid_response(exception.__cause__)
    return _response_of(exception.to_error())


def invalid_response(invalid: ValidationError) -> web.Response:
    """The answer to a body that does not fit its schema: what is wrong with its first wrong value."""
    return _response_of(Error.from_validation_errors(invalid)[0])


def _response_of(error: Error) -> web.Response:
    status = error.status or HTTPStatus.BAD_REQUEST
    told = error.model_copy(update={"detail": (error.detail or "")[:MAX_DETAIL]})
    return scim_response(dumped(told), status=status)
