"""Calls to DynamoDB that never block the event loop, with DynamoDB's errors translated to the store's."""

import asyncio
import os
import ssl
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

import aiohttp
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError, NoRegionError
from botocore.exceptions import ConnectionError as NotConnected
from botocore.httpsession import get_cert_path
from botocore.loaders import Loader, create_loader
from botocore.session import Session

from clusterra_runtime.backoff import Backoff, retry
from clusterra_runtime.store.dynamodb_wire import NotAnswered, Wire
from clusterra_runtime.store.store import ItemTooLarge, StoreError, StoreUnavailable, TableMissing

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

CONNECTIONS = 32
CONNECT_TIMEOUT_SECONDS = 2.0
READ_TIMEOUT_SECONDS = 4.0
REQUEST_TIMEOUT_SECONDS = 10.0
"""For one attempt as a whole. No other timeout ends a request whose body the server does not read."""
ATTEMPTS = 3
CONFLICT_ATTEMPTS = 12
_BUSY = frozenset(
    {
        "InternalServerError",
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ServiceUnavailable",
        "ThrottlingError",
        "ThrottlingException",
    }
)
_CONFLICTS = frozenset({"TransactionConflict", "TransactionConflictException", "TransactionInProgressException"})


class WriteRejected(Exception):
    """A condition did not hold. `found` has one entry per write: None if its condition held, else the item it found.

    The item is empty if it was absent.
    """

    def __init__(self, found: list[dict[str, Any] | None]) -> None:
        super().__init__()
        self.found = found


class _Conflict(StoreUnavailable):
    """Another transaction is writing the item."""


class Client:
    """The operations on items go by `Wire`, on the event loop; all others by one botocore client, on a few threads.

    So do operations on items from another event loop than the one that opened the client, which are rare.

    The region is that of `AWS_REGION`, which AWS's other SDKs and platforms use, else that of botocore's own
    configuration (`AWS_DEFAULT_REGION`), from which credentials and the endpoint come too.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="dynamodb")
        self._boto: DynamoDBClient | None = None
        self._wire: Wire | None = None

    async def open(self) -> None:
        """Load botocore's model of DynamoDB. No request is made. Raises StoreError without a region."""
        session = Session()
        session.register_component("data_loader", _loader(session.get_config_variable("data_path")))
        try:
            self._boto = await asyncio.get_running_loop().run_in_executor(self._pool, _connect, session)
        except NoRegionError as error:
            raise StoreError("the region of DynamoDB is not known: set AWS_REGION") from error
        endpoint = self._boto.meta.endpoint_url
        self._wire = Wire(
            endpoint,
            self._boto.meta.region_name,
            session.get_credentials(),
            verify=await asyncio.to_thread(_trusted, session) if endpoint.startswith("https:") else True,
            connections=CONNECTIONS,
            attempts=ATTEMPTS,
            timeout=aiohttp.ClientTimeout(
                total=REQUEST_TIMEOUT_SECONDS, sock_connect=CONNECT_TIMEOUT_SECONDS, sock_read=READ_TIMEOUT_SECONDS
            ),
        )

    async def close(self) -> None:
        """Wait for running requests of other event loops, and close the connections."""
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)
        if self._wire is not None:
            await self._wire.close()
        if self._boto is not None:
            self._boto.close()

    async def call(self, operation: str, **request: Any) -> Any:
        """Send one request; it is retried after broken connections and conflicts.

        Raises WriteRejected, StoreUnavailable, ItemTooLarge and StoreError.
        """
        send = partial(self._call_once, operation, request)
        return await retry(send, Backoff(0.02, 0.3), on=_Conflict, attempts=CONFLICT_ATTEMPTS)

    async def _call_once(self, operation: str, request: dict[str, Any]) -> Any:
        try:
            return await self._sent(operation, request)
        except ClientError as error:
            raise _translated(error) from error
        except (NotConnected, HTTPClientError, NotAnswered) as error:
            reason = str(error) if isinstance(error, NotAnswered) else type(error).__name__
            raise StoreUnavailable(
                f"no answer from DynamoDB ({reason}): check AWS_ENDPOINT_URL and the network"
            ) from error
        except NoCredentialsError as error:
            raise StoreError(
                "there are no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give this"
                " process an IAM role"
            ) from error
        except BotoCoreError as error:
            raise StoreError(f"the request to DynamoDB failed: {error}") from error

    async def _sent(self, operation: str, request: dict[str, Any]) -> Any:
        if self._boto is None or self._wire is None:
            raise StoreError("the store is not open: use it inside `async with`")
        if self._wire.serves(operation):
            return await self._wire.call(operation, request)
        method = partial(getattr(self._boto, operation), **request)
        return await asyncio.get_running_loop().run_in_executor(self._pool, method)


@cache
def _loader(data_path: str | None) -> Loader:
    """The loader of AWS's models. They are large, so a process that opens several stores reads them once."""
    return create_loader(data_path)


def _connect(session: Session) -> "DynamoDBClient":
    client = session.create_client(
        "dynamodb",
        region_name=os.environ.get("AWS_REGION") or None,
        config=Config(
            max_pool_connections=CONNECTIONS,
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=READ_TIMEOUT_SECONDS,
            tcp_keepalive=True,
            # botocore composes its default user agent for every request, which takes a tenth of the request's time.
            user_agent="clusterra",
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            # Only this package makes requests, and its tests run against servers that validate them.
            parameter_validation=False,
        ),
    )
    return cast("DynamoDBClient", client)


def _trusted(session: Session) -> ssl.SSLContext:
    """The certificate authorities that botocore trusts."""
    configured = session.get_config_variable("ca_bundle")
    return ssl.create_default_context(cafile=configured or get_cert_path(verify=True))


def _translated(error: ClientError) -> Exception:
    answer: dict[str, Any] = dict(error.response)
    code = answer["Error"].get("Code", "")
    message = answer["Error"].get("Message", "")
    reasons = answer.get("CancellationReasons", [])
    codes = {code, *(reason.get("Code") for reason in reasons)}
    message = " ".join([message, *(reason.get("Message") or "" for reason in reasons)])
    if codes & _CONFLICTS:
        return _Conflict("another transaction is writing the same item: repeat the operation")
    if codes & _BUSY or answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500:
        return StoreUnavailable(f"DynamoDB is too busy ({code}): repeat the operation later")
    if "ConditionalCheckFailed" in codes:
        return WriteRejected(
            [reason.get("Item", {}) if reason["Code"] == "ConditionalCheckFailed" else None for reason in reasons]
        )
    if code == "ConditionalCheckFailedException":
        return WriteRejected([answer.get("Item", {})])
    if code == "ResourceNotFoundException":
        return TableMissing("a table does not exist: run `clusterra-admin tables apply`")
    if "item size" in message.lower():
        return ItemTooLarge("an item would exceed 400 KiB: split it or keep the large part elsewhere")
    return StoreError(f"DynamoDB rejected {error.operation_name}: {code}: {message}")
