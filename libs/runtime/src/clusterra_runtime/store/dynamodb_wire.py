"""DynamoDB's protocol on the event loop: the operations on items, as signed JSON over HTTP.

boto3 takes 0.8 ms of CPU for a small request, and the hand-over to a thread and back a third more. Here a request takes
a quarter of that. botocore still finds the endpoint, the region and the credentials.
"""

import asyncio
import base64
import io
import ssl
import time
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

import aiohttp
import orjson
from botocore.exceptions import ClientError, NoCredentialsError
from botocore.utils import get_environ_proxies
from yarl import URL

from clusterra_runtime.backoff import Backoff, retry
from clusterra_runtime.store.dynamodb_signature import Credentials, Signer

OPERATIONS = {
    "get_item": "GetItem",
    "put_item": "PutItem",
    "update_item": "UpdateItem",
    "delete_item": "DeleteItem",
    "query": "Query",
    "scan": "Scan",
    "transact_write_items": "TransactWriteItems",
    "batch_write_item": "BatchWriteItem",
}
"""The operations that go this way, by boto3's name: those that services use all the time."""

CREDENTIALS_SECONDS = 60.0
"""How long credentials are kept. boto3 renews temporary ones ten minutes before they end, at the latest."""
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
_CONNECTION_SECONDS = 60.0
_TRY_AGAIN = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestTimeout",
        "RequestTimeoutException",
        "ThrottlingException",
    }
)
_TRY_AGAIN_STATUS = frozenset({500, 502, 503, 504})
_LARGE_BYTES = 512 * 1024
_OK = 200


class NotAnswered(Exception):
    """No whole answer arrived in time."""


class Keychain(Protocol):
    """botocore's credentials, which renew themselves."""

    def get_frozen_credentials(self) -> Any:
        """Return the credentials of this moment. May read files and ask servers."""


class Wire:
    """A connection pool to one endpoint of DynamoDB. It belongs to the event loop that it was made on."""

    def __init__(
        self,
        endpoint: str,
        region: str,
        keychain: Keychain | None,
        *,
        verify: ssl.SSLContext | bool = True,
        connections: int,
        attempts: int,
        timeout: aiohttp.ClientTimeout,
    ) -> None:
        self._url = URL(endpoint.rstrip("/") + "/")
        self._keychain = keychain
        self._attempts = attempts
        self._signer = Signer(region, _host(self._url), self._url.raw_path)
        self._proxy = _proxy(self._url)
        self._loop = asyncio.get_running_loop()
        # The timeout of a request begins when it has its connection, not while it waits for one.
        self._free = asyncio.Semaphore(connections)
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections, keepalive_timeout=_CONNECTION_SECONDS, ssl=verify),
            timeout=timeout,
            headers={"Accept-Encoding": "identity", "User-Agent": "clusterra"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._credentials: Credentials | None = None
        self._credentials_at = 0.0
        self._reading = asyncio.Lock()

    def serves(self, operation: str) -> bool:
        """Whether an operation goes this way, from the event loop of the caller."""
        return operation in OPERATIONS and asyncio.get_running_loop() is self._loop

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send one request, again if it was not answered or the server is too busy.

        Raises botocore's ClientError for an error of DynamoDB, NoCredentialsError, and NotAnswered.
        """
        send = partial(self._send, OPERATIONS[operation], encoded(request))
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        return await retry(send, backoff, on=_worth_trying_again, attempts=self._attempts)

    async def _send(self, operation: str, body: bytes) -> dict[str, Any]:
        credentials = await self._present_credentials()
        async with self._free:
            # Signed here, for the wait may be longer than a signature counts.
            return await self._exchange(operation, body, credentials)

    async def _exchange(self, operation: str, body: bytes, credentials: Credentials) -> dict[str, Any]:
        headers = self._signer.headers(operation, body, credentials, datetime.now(UTC))
        try:
            async with self._http.post(
                # aiohttp writes a buffer piece by piece, and warns of a large body that it cannot.
                self._url,
                data=io.BytesIO(body) if len(body) >= _LARGE_BYTES else body,
                headers=headers,
                proxy=self._proxy,
                allow_redirects=False,
            ) as answer:
                text = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NotAnswered(type(error).__name__) from error
        checksum = answer.headers.get("x-amz-crc32")
        if checksum is not None and checksum != str(zlib.crc32(text)):
            raise NotAnswered("damaged answer")
        if answer.status == _OK:
            try:
                return decoded(text)
            except ValueError as error:
                raise NotAnswered("no JSON") from error
        raise _error(operation, answer.status, text)

    async def _present_credentials(self) -> Credentials:
        found = self._credentials
        if found is None or time.monotonic() - self._credentials_at > CREDENTIALS_SECONDS:
            async with self._reading:
                if self._credentials is not found and self._credentials is not None:
                    # Another request has read them meanwhile.
                    return self._credentials
                found = await asyncio.to_thread(self._read_credentials)
                self._credentials, self._credentials_at = found, time.monotonic()
        return found

    def _read_credentials(self) -> Credentials:
        frozen = None if self._keychain is None else self._keychain.get_frozen_credentials()
        if frozen is None:
            raise NoCredentialsError
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)


def encoded(request: Mapping[str, Any]) -> bytes:
    """A request as DynamoDB's JSON, in which bytes are base64."""
    return orjson.dumps(request, default=_base64)


def decoded(text: bytes) -> dict[str, Any]:
    """An answer of DynamoDB: the reverse of `encoded`. Raises ValueError."""
    answer = orjson.loads(text) if text else {}
    if not isinstance(answer, dict):
        raise ValueError("the answer is no object")  # noqa: TRY004 - as for all answers that are not JSON
    # Most items hold no bytes, and then need not be walked through.
    if b'"B"' in text or b'"BS"' in text:
        for name in ("Item", "Attributes", "LastEvaluatedKey"):
            if name in answer:
                answer[name] = _record(answer[name])
        if "Items" in answer:
            answer["Items"] = [_record(item) for item in answer["Items"]]
        for entries in (answer.get("UnprocessedItems") or {}).values():
            for entry in entries:
                if "PutRequest" in entry:
                    entry["PutRequest"]["Item"] = _record(entry["PutRequest"]["Item"])
        for reason in answer.get("CancellationReasons") or ():
            if "Item" in reason:
                reason["Item"] = _record(reason["Item"])
    return answer


def _base64(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is no value of DynamoDB's JSON")


def _record(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in record.items()}


def _value(value: Mapping[str, Any]) -> dict[str, Any]:
    ((kind, content),) = value.items()
    match kind:
        case "B":
            return {kind: base64.b64decode(content)}
        case "BS":
            return {kind: [base64.b64decode(each) for each in content]}
        case "L":
            return {kind: [_value(each) for each in content]}
        case "M":
            return {kind: _record(content)}
        case _:
            return {kind: content}


def _error(operation: str, status: int, text: bytes) -> ClientError:
    """An error answer in the form in which botocore raises it."""
    try:
        answer = decoded(text)
    except ValueError:
        answer = {}
    code = str(answer.pop("__type", status)).rpartition("#")[2]
    message = str(answer.pop("message", None) or answer.pop("Message", None) or "")
    response: Any = {
        **answer,
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(response, operation)


def _worth_trying_again(error: Exception) -> bool:
    if not isinstance(error, ClientError):
        return isinstance(error, NotAnswered)
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    return status in _TRY_AGAIN_STATUS or error.response["Error"]["Code"] in _TRY_AGAIN


def _proxy(url: URL) -> str | None:
    """The proxy that the environment names, which may leave out that it speaks HTTP."""
    found = get_environ_proxies(str(url)).get(url.scheme)
    return found if found is None or "://" in found else f"http://{found}"


def _host(url: URL) -> str:
    host = url.raw_host or ""
    named = f"[{host}]" if ":" in host else host
    return named if url.is_default_port() else f"{named}:{url.port}"
