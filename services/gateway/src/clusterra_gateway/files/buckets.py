"""The buckets of clusters: their clients, made when they are first used, and requests to them in threads."""

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Self

import boto3
import structlog
from botocore.exceptions import BotoCoreError, ClientError
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.registry import AccessKeys, StorageBinding
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.outbound import DEFAULT_OUTBOUND, Outbound
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.secrets.reference import SecretUnavailable

from clusterra_gateway.files.s3_client import (
    CONNECTIONS,
    S3,
    Credentials,
    assume,
    connect,
    misconfigured,
    new_session,
    translated,
    unavailable,
)
from clusterra_gateway.http.requests.errors import BadUpstream, NotFound, Unavailable

log = structlog.get_logger()

MAX_KEPT = 64
"""The number of buckets whose clients are kept. The least recently used client is dropped first."""
_THREADS = 64
_SIGNING_THREADS = 4
_KEYS_SECONDS = 5.0
"""How long keys are used before they are looked at again."""
_TURN_SECONDS = 10.0
"""How long a request waits for its turn at a bucket that others keep busy."""


@dataclass(frozen=True)
class _Kept:
    storage: StorageBinding
    s3: S3
    read_at: float
    """When the credentials were read, by the monotonic clock."""

    def current(self, storage: StorageBinding) -> bool:
        """Whether the credentials need not be looked at again."""
        if self.storage != storage or self.s3.credentials.renewable(now()):
            return False
        return self.s3.credentials.expires_at is not None or time.monotonic() < self.read_at + _KEYS_SECONDS


class Bucket:
    """The bucket of one cluster, for one request of the API."""

    def __init__(self, s3: S3, requests: ThreadPoolExecutor, signing: ThreadPoolExecutor, turn: asyncio.Semaphore):
        self.s3 = s3
        self._requests = requests
        self._signing = signing
        self._turn = turn

    @property
    def name(self) -> str:
        """Its name, as S3's requests state it."""
        return self.s3.bucket

    @property
    def credentials_end(self) -> datetime | None:
        """When the credentials end, and with them every URL that they sign; None for never."""
        return self.s3.credentials.expires_at

    async def ask[T](self, work: Callable[[S3], T]) -> T:
        """Run a request in a thread. Raises the request errors of `translated`.

        A bucket that does not answer has few threads, so that it leaves others to the buckets that do.
        """
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await self._turn.acquire()
        except TimeoutError:
            raise unavailable("too many requests wait for the bucket of this cluster") from None
        try:
            return await _in_thread(self._requests, work, self.s3)
        finally:
            self._turn.release()

    async def sign[T](self, work: Callable[[S3], T]) -> T:
        """Run what makes no request in threads of their own, which never wait for a server."""
        return await _in_thread(self._signing, work, self.s3)


class Buckets:
    """The buckets of all clusters that have one."""

    def __init__(self, registry: Registry, secrets: Secrets, outbound: Outbound = DEFAULT_OUTBOUND) -> None:
        self._registry = registry
        self._secrets = secrets
        self._outbound = outbound
        self._kept = BoundedCache[ClusterRef, _Kept](MAX_KEPT)
        self._turns: defaultdict[ClusterRef, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(CONNECTIONS))
        self._opening: defaultdict[ClusterRef, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._requests = ThreadPoolExecutor(_THREADS, thread_name_prefix="s3")
        self._signing = ThreadPoolExecutor(_SIGNING_THREADS, thread_name_prefix="s3-signing")
        self._session: boto3.Session | None = None
        # boto3 does not make clients of one session in several threads at once.
        self._connecting = threading.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for pool in (self._requests, self._signing):
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)

    def exist(self, ref: ClusterRef) -> bool:
        """Whether a cluster has a bucket, as its binding says."""
        binding = self._registry.get(ref)
        return binding is not None and binding.storage is not None

    async def of(self, ref: ClusterRef) -> Bucket:
        """The bucket of a cluster. Raises NotFound for a cluster without one, BadUpstream, Unavailable."""
        binding = self._registry.get(ref)
        if binding is None or binding.storage is None:
            raise NotFound("this cluster has no storage for files", hint="the operators can give it a bucket")
        storage = binding.storage
        async with self._opening[ref]:
            s3 = await self._opened(ref, storage)
        return Bucket(s3, self._requests, self._signing, self._turns[ref])

    async def _opened(self, ref: ClusterRef, storage: StorageBinding) -> S3:
        kept = self._kept.get(ref)
        if kept is None or not kept.current(storage):
            read_at, credentials = time.monotonic(), await self._credentials(ref, storage)
            if kept is not None and kept.storage == storage and kept.s3.credentials == credentials:
                s3 = kept.s3
            else:
                # The old client ends with the last request that uses it.
                loop = asyncio.get_running_loop()
                s3 = await loop.run_in_executor(self._requests, self._connect, storage, credentials)
            kept = _Kept(storage, s3, read_at)
            self._kept.put(ref, kept)
        return kept.s3

    async def _credentials(self, ref: ClusterRef, storage: StorageBinding) -> Credentials:
        match storage.credentials:
            case AccessKeys() as keys:
                try:
                    return Credentials(
                        (await self._secrets.read(keys.access_key_id)).decode(),
                        (await self._secrets.read(keys.secret_access_key)).decode(),
                    )
                except (SecretUnavailable, UnicodeDecodeError) as error:
                    reason = str(error) if isinstance(error, SecretUnavailable) else "not text in UTF-8"
                    log.error("storage_keys_unavailable", cluster=str(ref), reason=reason)  # noqa: TRY400 - has it all
                    raise misconfigured("its keys cannot be read") from None
            case role:
                name = f"clusterra-{ref.tenant}-{ref.cluster}"
                return await _in_thread(self._requests, lambda given: assume(given, storage.region, name), role)

    def _connect(self, storage: StorageBinding, credentials: Credentials) -> S3:
        with self._connecting:
            if self._session is None:
                self._session = new_session()
            return connect(self._session, storage, credentials, self._outbound)


async def _in_thread[A, T](pool: ThreadPoolExecutor, work: Callable[[A], T], argument: A) -> T:
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, work, argument)
    except (ClientError, BotoCoreError) as error:
        answer = translated(error)
        if isinstance(answer, BadUpstream | Unavailable):
            log.warning("storage_request_failed", error=type(error).__name__, reason=answer.detail)
        raise answer from None
