"""What the planner would decide under another policy: `POST /v1/clusters/{cluster_id}/simulations`."""

from decimal import Decimal
from typing import Annotated, Any, Literal

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, Moment, ShapeName, WorkerName
from clusterra_contracts.registry import ScalingPolicy
from clusterra_contracts.rpc.simulate import SimulatedDecision, SimulatedShape, SimulatedWait, SimulatePolicy
from clusterra_contracts.shapes import Catalogue
from clusterra_runtime.nats.registry import Registry
from pydantic import Field

from clusterra_gateway.bus.requests import ScalerRequests
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.requests.errors import Forbidden, InvalidRequest, NotFound
from clusterra_gateway.http.requests.parameters import Body, body
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes

MOST_WORKERS = 5_000
"""The most workers that a simulated policy may allow: what one cluster is built for."""
MOST_SHAPES = 200

MAX_GENERATION = 2**53 - 1
"""The largest number that every client reads exactly."""

_EXACT = Decimal("0.000001")

Seconds = Annotated[float, Field(ge=0, le=86_400)]
Count = Annotated[int, Field(ge=0, le=MOST_WORKERS)]
Usd = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
ByShape = Annotated[dict[ShapeName, Count], Field(max_length=MOST_SHAPES)]

api = cluster_routes(changes=Needs("jobs:read", "member"))


class PolicyChanges(Body):
    """Fields of the policy that are to be otherwise. Those that are not given are as the cluster has them.

    `most` and `warm` take the place of all limits by shape and all warm pools; a shape that no worker may have gets 0
    in `most`. A `usd_per_hour` of null is no limit; elsewhere null is as not given.
    """

    name: Literal["packing", "family"] | None = None
    idle_seconds: Seconds | None = None
    max_workers: Count | None = None
    usd_per_hour: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)] | None = None
    most: ByShape | None = None
    warm: ByShape | None = None
    gather_seconds: Seconds | None = None
    wait_usd_per_hour: Usd | None = None
    moves_per_minute: Annotated[int, Field(ge=1, le=MOST_WORKERS)] | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The fields that are to be otherwise."""
        values = {name: getattr(self, name) for name in self.model_fields_set}
        return {name: value for name, value in values.items() if value is not None or name == "usd_per_hour"}


class SimulateChanges(Body):
    """What to decide under, and from which queue: from the present one, or that of the decision with a `generation`.

    The `generation` is that of an event `scale.decided`. Fields of the policy that are not given are then as the
    decision had them. 404 where the scaler does not log its decisions, or no longer has this one.
    """

    policy: PolicyChanges
    generation: Annotated[int, Field(ge=1, le=MAX_GENERATION)] | None = None

    def changed(self, policy: ScalingPolicy, catalogue: Catalogue) -> ScalingPolicy:
        """The policy with the changes. Raises InvalidRequest for a shape that the cluster does not have."""
        for name in ("most", "warm"):
            for shape in self.policy.given.get(name, ()):
                if shape not in catalogue:
                    known = ", ".join(each.name for each in catalogue.shapes)
                    raise InvalidRequest(f"`{name}` names an unknown shape", hint=f"shapes: {known}")
        return policy.model_copy(update=self.policy.given)


class DecidedShape(ResponseBody):
    """The workers of a shape after a decision.

    `new` of the `workers` would be bought, and `drains` of them drained and removed once they run nothing. `victims`
    are removed at once, and are none of `workers`. At most 100 names are told. `usd_per_hour` is the list price of all
    `workers`, null where it is unknown.
    """

    shape: ShapeName
    workers: int
    new: int
    drains: int
    draining: tuple[WorkerName, ...]
    victims: tuple[WorkerName, ...]
    usd_per_hour: Decimal | None

    @classmethod
    def of(cls, shape: SimulatedShape) -> "DecidedShape":
        """What the caller sees of it."""
        return cls.showing(shape, usd_per_hour=None if shape.usd_per_hour is None else _usd(shape.usd_per_hour))


class Decided(ResponseBody):
    """What one policy decides. Of the jobs and array tasks that wait for nodes alone, `placed` have a worker or would
    get one, and `waiting` get none now: `waits` has 100 groups of these, with the reason and 20 jobs of each.
    """

    shapes: tuple[DecidedShape, ...]
    usd_per_hour: Decimal
    placed: int
    waiting: int
    waits: tuple[SimulatedWait, ...]

    @classmethod
    def of(cls, decision: SimulatedDecision) -> "Decided":
        """What the caller sees of it."""
        shapes = tuple(DecidedShape.of(each) for each in decision.shapes)
        return cls.showing(decision, shapes=shapes, usd_per_hour=_usd(decision.usd_per_hour))


class PolicySimulation(ResponseBody):
    """Two decisions from one snapshot of the queue, taken at `as_of`: under the present policy, and the changed one.

    With a `generation` it is the snapshot of that decision, and `present` is what was decided, under the policy of that
    time. `snapshot_generation` is the snapshot's number, as in the events of decisions.
    Each is one decision, and no forecast. Workers that run or are ordered already are not undone by a lower limit. A
    `paused` cluster buys no worker under any policy. `shadow` means that the scaler buys nothing.
    """

    present: Decided
    changed: Decided
    paused: bool
    shadow: bool
    as_of: Moment
    snapshot_generation: int
    generation: int | None


class Simulations:
    """The handler of simulations."""

    def __init__(self, scaler: ScalerRequests, registry: Registry) -> None:
        self._scaler = scaler
        self._registry = registry

    @api.post("clusters_simulate", f"{CLUSTER}/simulations", body=SimulateChanges, result=PolicySimulation)
    async def simulate(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Decides what the planner would do under a changed policy, beside the present one. Nothing is changed.

        It decides from what waits and runs now, or with a `generation` from what an earlier decision was made from.
        It names jobs of all people: it is for admins, and for members where the cluster's visibility shows them
        everybody's jobs. Everybody else is refused with 403.
        """
        if not caller.sees_everybody:
            raise Forbidden(
                "this tells of everybody's jobs, and you see your own", hint="ask an admin of your workspace"
            )
        wanted = await body(request, SimulateChanges)
        binding = self._registry.clusters.get(ref)
        if binding is None:
            raise NotFound("there is no such cluster", hint="GET /v1/clusters lists yours")
        policy = wanted.changed(binding.policy, binding.catalogue)
        found = await self._scaler.simulate(
            ref,
            SimulatePolicy(policy=policy, generation=wanted.generation, fields=tuple(sorted(wanted.policy.given))),
        )
        if found.generation != wanted.generation:
            # It is of a release that simulates only the current queue.
            raise NotFound(
                "this release of the scaler simulates only the current queue",
                hint="simulate with the current queue instead",
            )
        return json_response(
            PolicySimulation.showing(found, present=Decided.of(found.present), changed=Decided.of(found.changed))
        )


def _usd(amount: float) -> Decimal:
    return Decimal(repr(amount)).quantize(_EXACT)
