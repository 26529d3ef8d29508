"""The origins of presigned URLs: what a page that uses them must be allowed to reach."""

import asyncio
import re

import boto3
import structlog
from botocore.exceptions import BotoCoreError, ClientError
from clusterra_contracts.identity import TenantRef
from clusterra_contracts.registry import StorageBinding
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.nats.registry import Registry

from clusterra_gateway.files.s3_client import Credentials, connect, new_session
from clusterra_gateway.settings import origin_of

log = structlog.get_logger()

MAX_KEPT = 1000
MAX_CLUSTERS = 50
"""The clusters of a tenant whose buckets are looked at."""
_NOBODY = Credentials("none", "none")
"""An origin depends on no key, so none is read."""
_ORIGIN = re.compile(r"https?://[a-z0-9.:\[\]-]+")


class BucketOrigins:
    """The origins of the buckets of each tenant's clusters. A URL is signed with no key, and nothing is sent."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._known = BoundedCache[tuple[str | None, ...], str](MAX_KEPT)
        self._session: boto3.Session | None = None
        # boto3 does not make clients of one session in several threads at once.
        self._signing = asyncio.Lock()

    async def of(self, tenant: TenantRef) -> list[str]:
        """The origins of a tenant's buckets, each once, in the order of the clusters."""
        stored = {
            ref.cluster: binding.storage
            for ref, binding in self._registry.clusters.items()
            if ref.tenant == tenant.tenant and binding.storage is not None
        }
        found = [await self.of_bucket(stored[cluster]) for cluster in sorted(stored)[:MAX_CLUSTERS]]
        return [origin for origin in dict.fromkeys(found) if origin is not None]

    async def of_bucket(self, storage: StorageBinding) -> str | None:
        """The origin of a bucket's URLs; None where no URL can be made."""
        key = (storage.bucket, storage.region, storage.endpoint, storage.public_endpoint, storage.addressing)
        async with self._signing:
            known = self._known.get(key)
            if known is None:
                known = await asyncio.to_thread(self._signed, storage)
                self._known.put(key, known)
        return known or None

    def _signed(self, storage: StorageBinding) -> str:
        """The origin; empty where there is none."""
        try:
            if self._session is None:
                self._session = new_session()
            s3 = connect(self._session, storage, _NOBODY)
            url = s3.signer.generate_presigned_url("get_object", Params={"Bucket": s3.bucket, "Key": "none"})
            origin = origin_of(url)
        except (BotoCoreError, ClientError, ValueError) as error:
            log.warning("bucket_without_origin", bucket=storage.bucket, error=type(error).__name__)
            return ""
        return origin if _ORIGIN.fullmatch(origin) else ""
