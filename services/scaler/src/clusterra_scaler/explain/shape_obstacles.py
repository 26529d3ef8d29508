"""Why a shape cannot be bought for a job: its size, the job's own rules, or a limit of the policy. For people.

Whether it can is what the planner's own functions say. Here they are asked again, each time about one part, to find the
part that says no.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clusterra_contracts.alternatives import Lack, Verdict
from clusterra_contracts.constraints import parse
from clusterra_contracts.demand import Need, Part
from clusterra_contracts.identity import ShapeName
from clusterra_contracts.registry import ScalingPolicy
from clusterra_contracts.shape_fit import GpuShapes, holds
from clusterra_contracts.shapes import Shape

from clusterra_scaler.planner.observed.quota import QuotaHeadroom


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a shape cannot be bought for a job."""

    verdict: Verdict
    text: str
    lacks: tuple[Lack, ...] = ()


def obstacle_of(parts: Sequence[Part], shape: Shape, gpu_shapes: GpuShapes) -> Obstacle | None:
    """Why no node of the job could be a worker of the shape; None if one could."""
    found = [_obstacle(part.need, shape, gpu_shapes) for part in parts]
    return None if None in found else found[0]


def holds_all(parts: Sequence[Part], shape: Shape, gpu_shapes: GpuShapes) -> bool:
    """Whether all nodes of the job could be workers of the shape."""
    return all(_obstacle(part.need, shape, gpu_shapes) is None for part in parts)


def limit_of(
    shape: ShapeName, nodes: int, headroom: QuotaHeadroom, policy: ScalingPolicy
) -> tuple[Obstacle, bool] | None:
    """The limit that leaves no room for so many workers of the shape, and whether it is the shape's own."""
    room = headroom.of(shape)
    if room >= nodes:
        return None
    own = replace(headroom, anywhere=max(headroom.anywhere, nodes), usd_per_hour=None)
    if own.of(shape) < nodes:
        most = policy.most.get(shape, 0)
        text = _limit_text(f"the limit of {most} workers of this shape", room, nodes)
        return Obstacle("limited", text if most else "The policy allows no worker of this shape."), True
    if replace(headroom, of_shape={}, usd_per_hour=None).of(shape) < nodes:
        return Obstacle(
            "limited", _limit_text(f"the cluster's limit of {policy.max_workers} workers", room, nodes)
        ), False
    return Obstacle("limited", _limit_text("the cluster's limit on USD per hour", room, nodes)), False


def _limit_text(limit: str, room: int, nodes: int) -> str:
    some = f"{room} of the {nodes} that it needs" if room else "no more"
    return f"{limit[0].upper()}{limit[1:]} leaves room for {some}."


def _obstacle(need: Need, shape: Shape, gpu_shapes: GpuShapes) -> Obstacle | None:
    worker = shape.worker
    if need.unreadable:
        return Obstacle("not_for_it", f"What it asks for cannot be honoured: {need.unreadable}.")
    if need.node:
        return Obstacle("not_for_it", f"It asks for the node {need.node}, which no new worker can be.")
    if shape.name in gpu_shapes.excluded_shapes(need):
        return Obstacle("not_for_it", "Workers with GPUs are only for jobs that ask for GPUs.")
    if not parse(need.constraint)(worker.features):
        return Obstacle("not_for_it", f"Its features do not meet the constraint {need.constraint!r}.")
    if holds(shape, need):
        return None
    told: dict[Lack, str] = {}
    if not holds(shape, replace(need, memory_mib=0, gres=())):
        told["cpus"] = f"{need.cpus} CPUs asked, {worker.cpus} there"
    if not holds(shape, replace(need, cpus=0, gres=())):
        told["memory"] = _memory_text(need.memory_mib, worker.memory_mib)
    if not holds(shape, replace(need, cpus=0, memory_mib=0)):
        told["gpus"] = f"{', '.join(map(str, need.gres))} asked, {worker.gres or 'none'} there"
    return Obstacle("too_small", f"Too small: {'; '.join(told.values())}.", tuple(told))


def _memory_text(asked_mib: int, there_mib: int) -> str:
    asked, there = (f"{each / 1024:.4g} GiB" for each in (asked_mib, there_mib))
    return f"{asked} asked, {there} there" if asked != there else f"{asked_mib} MiB asked, {there_mib} MiB there"
