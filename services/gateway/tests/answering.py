"""Answers the requests of a service's stand-in, until it is to stop."""

from collections.abc import Awaitable

from clusterra_contracts.rpc.reply import ErrorKind, RpcError
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.rpc import RpcFailed
from nats.aio.subscription import Subscription


def rpc_failure(kind: ErrorKind, detail: str = "no", *, hint: str = "") -> RpcFailed:
    return RpcFailed(RpcError(kind=kind, detail=detail, hint=hint))


class Answering:
    """The subjects that a stand-in answers on."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []

    async def begin(self, client: Client, *served: Awaitable[Subscription]) -> None:
        """Subscribe to all of them, and wait for the server once."""
        async with client.subscribing():
            self._subscriptions += [await each for each in served]

    async def end(self, client: Client) -> None:
        """Answer nothing any more."""
        for subscription in self._subscriptions:
            await subscription.unsubscribe()
        self._subscriptions = []
        # Else the server may send the next request to one of these subscriptions, and nobody answers it.
        await client.flush()
