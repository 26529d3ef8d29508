"""Removes what the scaler has stored of a cluster that is deleted, when the gateway asks for it."""

from clusterra_contracts.bus.subjects import Subject
from clusterra_contracts.rpc.forget import Forget, Forgotten
from clusterra_contracts.rpc.reply import RpcError
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.rpc import RpcFailed
from clusterra_runtime.store.store import StoreError

from clusterra_scaler.decisions.log import DecisionLog
from clusterra_scaler.fleets import Fleets


class Forgetting:
    """The handler. Any replica answers: the fleet has no control loop any more."""

    def __init__(self, fleets: Fleets, registry: Registry, decision_log: DecisionLog | None = None) -> None:
        self._fleets = fleets
        self._registry = registry
        self._decision_log = decision_log

    async def forget(self, subject: Subject, _request: Forget) -> Forgotten:
        """Remove the fleet, and what this replica has logged of its decisions.

        Raises RpcFailed: `conflict` while this replica still decides for the cluster.
        """
        if self._registry.get(subject.ref) is not None:
            raise RpcFailed(RpcError(kind="conflict", detail=f"the cluster {subject.ref} is still in the registry"))
        try:
            if self._decision_log is not None:
                await self._decision_log.forget(subject.ref)
            return Forgotten(removed=await self._fleets.forget(subject.ref))
        except OSError as error:
            # Its text tells a path of this host.
            detail = f"the decision log is not deleted: {type(error).__name__}"
            raise RpcFailed(RpcError(kind="unavailable", detail=detail, effect="unknown")) from error
        except StoreError as error:
            raise RpcFailed(RpcError(kind="unavailable", detail=str(error), effect="unknown")) from error
