"""Calls to DynamoDB that never block the event loop, with DynamoDB's errors translated to the store's."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError, NoRegionError
from botocore.exceptions import ConnectionError as NotConnected

from clusterra_runtime.backoff import Backoff, retry
from clusterra_runtime.store.store import ItemTooLarge, StoreError, StoreUnavailable, TableMissing

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

CONNECTIONS = 32
CONNECT_TIMEOUT_SECONDS = 2.0
READ_TIMEOUT_SECONDS = 4.0
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
    """One boto3 client in a bounded pool of threads; its async forks were measured to be no faster.

    The region is that of `AWS_REGION`, which AWS's other SDKs and platforms use, else that of boto3's own configuration
    (`AWS_DEFAULT_REGION`), from which credentials and the endpoint come too.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="dynamodb")
        self._boto: DynamoDBClient | None = None

    async def open(self) -> None:
        """Load boto3's model of DynamoDB. No request is made. Raises StoreError without a region."""
        try:
            self._boto = await asyncio.get_running_loop().run_in_executor(self._pool, _connect)
        except NoRegionError as error:
            raise StoreError("the region of DynamoDB is not known: set AWS_REGION") from error

    async def close(self) -> None:
        """Wait for running requests and close the connections."""
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)
        if self._boto is not None:
            self._boto.close()

    async def call(self, operation: str, **request: Any) -> Any:
        """Send one request; it is retried after broken connections and conflicts.

        Raises WriteRejected, StoreUnavailable, ItemTooLarge and StoreError.
        """
        if self._boto is None:
            raise StoreError("the store is not open: use it inside `async with`")
        method = partial(getattr(self._boto, operation), **request)
        loop = asyncio.get_running_loop()

        async def send() -> Any:
            try:
                return await loop.run_in_executor(self._pool, method)
            except ClientError as error:
                raise _translated(error) from error
            except (NotConnected, HTTPClientError) as error:
                raise StoreUnavailable(
                    f"no answer from DynamoDB ({type(error).__name__}): check AWS_ENDPOINT_URL and the network"
                ) from error
            except NoCredentialsError as error:
                raise StoreError(
                    "there are no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give this"
                    " process an IAM role"
                ) from error
            except BotoCoreError as error:
                raise StoreError(f"the request to DynamoDB failed: {error}") from error

        return await retry(send, Backoff(0.02, 0.3), on=_Conflict, attempts=CONFLICT_ATTEMPTS)


def _connect() -> "DynamoDBClient":
    client: DynamoDBClient = boto3.client(
        "dynamodb",
        region_name=os.environ.get("AWS_REGION") or None,
        config=Config(
            max_pool_connections=CONNECTIONS,
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=READ_TIMEOUT_SECONDS,
            tcp_keepalive=True,
            # boto3 composes its default user agent for every request, which takes a tenth of the request's time.
            user_agent="clusterra",
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            # Only this package makes requests, and its tests run against servers that validate them.
            parameter_validation=False,
        ),
    )
    return client


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
