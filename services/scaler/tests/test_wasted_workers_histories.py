"""Simulated workers of no use: Slurm drains them as they register.

`queue_world.World` asserts what holds in all histories. Here the starts of workers are bounded.
"""

from random import Random
from typing import Any

from clusterra_contracts.shapes import Catalogue
from edge_model import BootFaults, EdgeBehaviour
from fleet_examples import CATALOGUE, binding
from queue_world import Faults, World
from slurm_model import Job

SHAPES = frozenset(shape.name for shape in CATALOGUE.shapes)
FOUR_SHAPES = Catalogue(shapes=CATALOGUE.shapes[:4])


def world(jobs: list[Job], boots: BootFaults, seed: int = 1, catalogue: Catalogue = CATALOGUE, **policy: Any) -> World:
    policy = {"idle_seconds": 60, "boot_timeout_seconds": 60, "ghost_seconds": 60, "max_workers": 10} | policy
    return World(
        jobs, binding(catalogue, **policy), Random(seed), Faults(boots=boots), EdgeBehaviour(boot_seconds=(5, 15))
    )


def small_jobs(count: int, cancelled: int, **fields: Any) -> list[Job]:
    return [Job(0, cpus=2, memory_mib=2048, runs=30, cancelled=cancelled, **fields) for _ in range(count)]


def test_a_shape_that_slurm_drains_is_given_up_for_another(policy: str) -> None:
    history = world(
        [Job(0, cpus=2, memory_mib=2048, runs=30)], BootFaults(short_shapes=frozenset({"compute-xs"})), name=policy
    )

    history.run(600, 1200)

    first, second, third = [shape for _, shape in history.edge.starts]
    assert first == second == "compute-xs" != third


def test_workers_that_slurm_drains_are_tried_seldom(policy: str) -> None:
    history = world(small_jobs(12, 500), BootFaults(short_shapes=SHAPES), catalogue=FOUR_SHAPES, name=policy)

    history.run(600, 900)

    late = [second for second, _ in history.edge.starts if second > 250]
    assert len(history.edge.starts) <= 4 * (10 + 4)
    assert len(late) <= 4 * 2
