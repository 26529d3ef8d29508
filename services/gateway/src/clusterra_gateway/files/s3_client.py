"""The clients of a bucket: one for requests, one that signs URLs with the address that clients use.

Signing is arithmetic, and makes no request. All of boto3 runs in threads: it would block the event loop.

Its errors are translated into errors of the HTTP request, whose texts name no key, no bucket and no file of others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import boto3
import botocore.awsrequest
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.utils import parse_timestamp
from clusterra_contracts.registry import AssumedRole, StorageBinding
from clusterra_runtime.outbound import DEFAULT_OUTBOUND, AddressRefused, Outbound
from urllib3.exceptions import NewConnectionError

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


if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

CONNECTIONS = 16
"""Requests to one bucket at a time."""
CONNECT_SECONDS = 2.0
READ_SECONDS = 15.0
ATTEMPTS = 2
"""With the times above, a request ends before the gateway's clients give up (`HTTP_SECONDS`)."""
PATIENT_SECONDS = 50.0
"""How long a server may make one file of many parts; the gateway's clients wait little longer."""
ROLE_SECONDS = 3600
"""How long an assumed role is valid: the longest that every role allows."""
ROLE_RENEWED_SECONDS = ROLE_SECONDS // 2
"""A role is assumed again when less of its time is left. A URL that it signs ends with it."""


@dataclass(frozen=True)
class _Patience:
    read_seconds: float
    attempts: int


_USUAL = _Patience(READ_SECONDS, ATTEMPTS)
_PATIENT = _Patience(PATIENT_SECONDS, 1)


@dataclass(frozen=True)
class Credentials:
    """What signs requests. `expires_at` is None for keys, which have no end."""

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None

    def renewable(self, now: datetime) -> bool:
        """Whether they should be replaced by newer ones."""
        return self.expires_at is not None and self.expires_at - now < timedelta(seconds=ROLE_RENEWED_SECONDS)


@dataclass(frozen=True)
class S3:
    """The clients of one bucket with one pair of credentials."""

    bucket: str
    client: "S3Client"
    patient: "S3Client"
    """For a request that takes the server long, and that must not be sent twice."""
    signer: "S3Client"
    credentials: Credentials


def new_session() -> boto3.Session:
    """A session whose clients read the times in S3's answers quickly.

    botocore's own reader takes every known form of a time, which is four fifths of the work of reading a list.
    """
    core = botocore.session.get_session()
    core.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_timestamp)
    return boto3.Session(botocore_session=core)


def _timestamp(value: Any) -> datetime:
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            pass  # such as that of a header, Wed, 21 Oct 2026 07:28:00 GMT
    return parse_timestamp(value)


def connect(
    session: boto3.Session, storage: StorageBinding, credentials: Credentials, outbound: Outbound = DEFAULT_OUTBOUND
) -> S3:
    """Make the clients of a bucket. Makes no request; takes some milliseconds, so call it in a thread."""
    client = _client(session, storage, storage.endpoint, credentials, _USUAL)
    patient = _client(session, storage, storage.endpoint, credentials, _PATIENT)
    for each in (client, patient):
        _refuse_closed(each, outbound)
    public = storage.public_endpoint
    signer = client if public is None else _client(session, storage, public, credentials, _USUAL)
    return S3(storage.bucket, client, patient, signer, credentials)


def assume(role: AssumedRole, region: str, name: str) -> Credentials:
    """Assume a role with this process's own AWS identity. `name` is what the customer's CloudTrail shows.

    Raises botocore's errors.
    """
    # A session of its own: one session makes no clients in several threads at once, and this request may hang.
    sts: Any = boto3.Session().client(
        "sts",
        region_name=region,
        config=Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        ),
    )
    try:
        external = {} if role.external_id is None else {"ExternalId": role.external_id}
        answer = sts.assume_role(
            RoleArn=role.role_arn, RoleSessionName=name[:64], DurationSeconds=ROLE_SECONDS, **external
        )
    finally:
        sts.close()
    made = answer["Credentials"]
    return Credentials(
        made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"], made["Expiration"].astimezone(UTC)
    )


def _refuse_closed(client: Any, outbound: Outbound) -> None:
    """Have a client send nothing over a connection that leads to an address which no service may call.

    botocore has no setting for that, so its pools get connections that check the address to which they are connected.
    """

    def checking(pool: Any) -> type[Any]:
        kind = pool.ConnectionCls

        def new_connection(self: Any) -> Any:
            made = kind._new_conn(self)
            try:
                outbound.check(str(made.getpeername()[0]))
            except AddressRefused as refused:
                made.close()
                raise NewConnectionError(self, str(refused)) from None
            return made

        connection = type(kind.__name__, (kind,), {"_new_conn": new_connection})
        return type(pool.__name__, (pool,), {"ConnectionCls": connection})

    client._endpoint.http_session._manager.pool_classes_by_scheme = {
        "http": checking(botocore.awsrequest.AWSHTTPConnectionPool),
        "https": checking(botocore.awsrequest.AWSHTTPSConnectionPool),
    }


def _client(
    session: boto3.Session,
    storage: StorageBinding,
    endpoint: str | None,
    credentials: Credentials,
    patience: _Patience,
) -> "S3Client":
    style: Literal["auto", "path", "virtual"] = storage.addressing
    if style == "auto":
        style = "virtual" if endpoint is None else "path"
    make: Callable[..., S3Client] = session.client
    return make(
        "s3",
        region_name=storage.region,
        endpoint_url=endpoint,
        aws_access_key_id=credentials.access_key_id,
        aws_secret_access_key=credentials.secret_access_key,
        aws_session_token=credentials.session_token,
        config=Config(  # type: ignore[call-arg]  # its stubs lack ignore_configured_endpoint_urls
            signature_version="s3v4",
            s3={"addressing_style": style},
            max_pool_connections=CONNECTIONS,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=patience.read_seconds,
            retries={"mode": "standard", "total_max_attempts": patience.attempts},
            tcp_keepalive=True,
            user_agent="clusterra",
            # Only the binding says where a bucket is, never a variable that is meant for our own tables.
            ignore_configured_endpoint_urls=True,
            # Servers other than AWS do not know the newer checksums, which boto3 would add unasked.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
