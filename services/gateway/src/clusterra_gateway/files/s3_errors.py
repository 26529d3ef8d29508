"""Translates errors of S3 into errors of the HTTP request. Their texts name no key, no bucket and no file of others."""

from collections.abc import Mapping

from botocore.exceptions import BotoCoreError, ClientError

from clusterra_gateway.http.requests.errors import (
    BadUpstream,
    Conflict,
    InvalidRequest,
    NotFound,
    RequestError,
    Unavailable,
)

RETRY_SECONDS = 2
"""When a request that S3 could not answer may succeed."""
OPERATORS_SECONDS = 60
"""When a request that the operators must make possible may succeed."""

_BY_CODE: Mapping[str, RequestError] = {
    code: error
    for codes, error in (
        (
            ("NoSuchKey", "404", "NotFound"),
            NotFound("there is no such file", hint="GET .../files lists what there is"),
        ),
        (
            ("NoSuchUpload",),
            NotFound(
                "there is no such upload",
                hint="it was completed or aborted: list the folder, or begin another upload",
            ),
        ),
        (
            ("PreconditionFailed", "412"),
            Conflict("the file has changed meanwhile", hint="list the folder and try again"),
        ),
        (
            ("EntityTooSmall", "InvalidPart", "InvalidPartOrder", "BadDigest", "MalformedXML"),
            Conflict(
                "the parts of the upload do not make a file",
                hint="each part but the last one needs 5 MiB; list the parts, and send those again that are wrong",
            ),
        ),
        (
            ("EntityTooLarge",),
            InvalidRequest("the file is larger than the server of the bucket takes", hint="send it in several files"),
        ),
        (
            ("InvalidArgument", "InvalidToken"),
            InvalidRequest("the server of the bucket does not take the cursor", hint="list from the beginning"),
        ),
    )
    for code in codes
}
_BUSY = frozenset(
    {"SlowDown", "ServiceUnavailable", "Throttling", "ThrottlingException", "RequestTimeout", "InternalError"}
)


def unavailable(detail: str = "the server of the bucket does not answer") -> Unavailable:
    """The error of a request that may succeed later."""
    return Unavailable(detail, hint="try again in a moment", retry_after_seconds=RETRY_SECONDS)


def misconfigured(code: str) -> BadUpstream:
    """The error of a request that fails until an operator changes something. `code` is S3's word for it."""
    return BadUpstream(
        f"the bucket of this cluster refuses the gateway ({code})",
        hint="tell the operators: the cluster's storage, its keys or its role are wrong",
        retry_after_seconds=OPERATORS_SECONDS,
    )


def translated(error: ClientError | BotoCoreError) -> RequestError:
    """The error of the HTTP request. Not with the text of S3, which may repeat keys and signed addresses."""
    if not isinstance(error, ClientError):
        return unavailable()
    answer: Mapping[str, Mapping[str, object]] = dict(error.response)  # type: ignore[arg-type]
    code = str(answer.get("Error", {}).get("Code", ""))
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _BUSY or (isinstance(status, int) and status >= 500):
        return unavailable("the server of the bucket is too busy")
    if (known := _BY_CODE.get(code)) is not None:
        return type(known)(known.detail, hint=known.hint)
    return misconfigured(code if code.isalnum() and len(code) <= 64 else "unknown error")
