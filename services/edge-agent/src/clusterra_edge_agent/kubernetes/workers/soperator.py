"""The `kubernetes` substrate of a cluster created by Soperator: a shape's workers are nodes of its NodeSet."""

from pathlib import Path

import structlog
from clusterra_contracts.scale import ShapeTarget

from clusterra_edge_agent.kubernetes.client.api import Api
from clusterra_edge_agent.kubernetes.client.nodesets import PowerState, SoperatorNodeSet
from clusterra_edge_agent.kubernetes.client.reflector import Reflector
from clusterra_edge_agent.kubernetes.client.resources import Deployment
from clusterra_edge_agent.kubernetes.workers import targets
from clusterra_edge_agent.kubernetes.workers.removable import removable
from clusterra_edge_agent.kubernetes.workers.soperator_ordinals import plan
from clusterra_edge_agent.kubernetes.workers.substrate import RETRY_SECONDS, KubernetesSubstrate
from clusterra_edge_agent.substrate.port import DesiredCheck

log = structlog.get_logger(__name__)

MISSING_RETRY_SECONDS = 10.0
"""Interval of the warning about missing workers. A watch reports the change that is needed."""


class PowerStateSubstrate(KubernetesSubstrate):
    """Keeps the active nodes of each NodeSetPowerState as desired; see `soperator_ordinals`."""

    def __init__(self, api: Api, folder: Path) -> None:
        super().__init__(api, folder, targets.soperator)
        self._collection = targets.power_states(api.namespace)
        self._power_states = Reflector[PowerState](
            api, self._collection, lambda old, new: None, self._on_deployments_sync
        )
        self._reflectors.append(self._power_states)

    async def _converge(self, deployment: Deployment, target: ShapeTarget, check: DesiredCheck) -> float | None:
        assert isinstance(deployment, SoperatorNodeSet)  # noqa: S101 - `targets.soperator` has no others
        power_state = self._power_states.objects.get(deployment.name)
        if power_state is None:
            log.warning("no_power_state", nodeset=deployment.name)
            return RETRY_SECONDS
        if target.victims and not await check.look_again():
            return 0.0
        # From here to the change nothing waits.
        power_state = self._power_states.objects.get(deployment.name, power_state)
        if not check.is_current():
            return 0.0
        pods = list(self._by_shape[target.shape].values())
        step = plan(deployment, power_state, pods, target.replicas, removable(target, self._by_shape[target.shape]))
        # A victim that is taken back may be removed until its ordinal is active again.
        inactive = {pod.name for pod in pods if deployment.ordinal(pod.name) not in power_state.spec.active_nodes}
        self._records.mark_removing(pods, inactive.union(target.victims))
        if step.active is not None:
            spec = {"activeNodes": list(step.active)}
            self._power_states.put(await self._api.replace(self._collection, power_state, spec))
            log.info(
                "active_nodes_changed",
                nodeset=deployment.name,
                active_before=power_state.spec.active_nodes,
                active=step.active,
            )
        if step.missing:
            log.warning("no_free_ordinal", nodeset=deployment.name, workers=step.missing)
            return MISSING_RETRY_SECONDS
        return None
