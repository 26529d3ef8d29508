"""The key that signs a cluster's tokens: followed while the cluster is served, and read whenever a token is minted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import structlog
from clusterra_contracts.registry import ClusterBinding
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.secrets.reference import SecretUnavailable

from clusterra_proxy.slurmrestd.errors import Unavailable

log = structlog.get_logger(__name__)

FIRST_KEY_SECONDS = 5.0
"""How long a cluster waits for the first read of its JWT key before it is served without one."""


@asynccontextmanager
async def followed_jwt_key(secrets: Secrets, binding: ClusterBinding) -> AsyncIterator[None]:
    """Keep the key current until the block ends, so that minting a token never waits for its source."""
    # It follows from the start, so that the first value is not forgotten before somebody follows it.
    following = asyncio.create_task(_follow_key(secrets, binding))
    try:
        with suppress(SecretUnavailable, TimeoutError):
            async with asyncio.timeout(FIRST_KEY_SECONDS):
                await secrets.read(binding.jwt_key)
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _follow_key(secrets: Secrets, binding: ClusterBinding) -> None:
    try:
        await secrets.follow(binding.jwt_key)
    except SecretUnavailable as error:
        log.error("jwt_key_not_followed", reason=str(error))  # noqa: TRY400 - the message is complete


def last_jwt_key(secrets: Secrets, binding: ClusterBinding) -> bytes:
    """Return the key as it was last read, without waiting. Raises Unavailable where there is none."""
    try:
        return secrets.last(binding.jwt_key)
    except SecretUnavailable as error:
        log.error("jwt_key_not_read", reason=str(error))  # noqa: TRY400 - the message is complete
        raise Unavailable(
            "the cluster's JWT key cannot be read, so no token can be minted",
            hint="an operator finds the reason in the proxy's log",
        ) from error
