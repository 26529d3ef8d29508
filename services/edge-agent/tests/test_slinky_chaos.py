"""Random rounds on NodeSets whose operator lags: only victims that still stand drained are ever removed."""

import asyncio
import json
import os
import random
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from clusterra_edge_agent.kubernetes.client.resources import SHAPE_LABEL
from clusterra_edge_agent.kubernetes.workers.substrate import KubernetesSubstrate
from clusterra_edge_agent.kubernetes.workers.targets import slinky
from clusterra_lab.kube.kubernetes import ControlPlane
from clusterra_lab.machine.process import until
from kube_agent import Agent, agent, desired_state
from kube_definitions import define, definitions
from kube_operators import operator
from kube_slinky import LaggingSlinkyOperator
from kube_workers import SHAPE, Workers

SEED = int(os.environ.get("CHAOS_SEED", "1"))
SEEDS = int(os.environ.get("CHAOS_SEEDS", "1"))
"""Number of rounds; `make test-chaos` plays 30, from SEED on."""
WORKERS = 8
OUR_REASON = "clusterra: idle"


class Round:
    """One NodeSet, the scaler's side of it, and operators who resume victims."""

    def __init__(self, seed: int, agent: Agent, operator: LaggingSlinkyOperator, counts: Counter[str]) -> None:
        self.rng = random.Random(seed)
        self.agent = agent
        self.operator = operator
        self.counts = counts
        self.generation = 0
        self.victims: set[str] = set()

    def publish(self, replicas: int) -> None:
        self.generation += 1
        self.agent.desire_all(self.generation, {SHAPE: (replicas, self.victims)})

    async def play(self) -> None:
        """Names victims and takes some of them back, at any moment; the rest must go and the others must stay."""
        slurm = self.operator.slurm
        self.publish(WORKERS)
        names = await self.agent.running(WORKERS)
        await until(self.operator_has_settled, seconds=60, what="the operator to see all workers", every=0.1)
        self.victims = set(self.rng.sample(names, self.rng.randint(1, 4)))
        self.counts["victims"] += len(self.victims)
        slurm.busy |= {name for name in names if name not in self.victims and self.rng.random() < 0.5}
        slurm.drained |= dict.fromkeys(self.victims, OUR_REASON)
        self.agent.held_up = self.held_up
        self.publish(WORKERS - len(self.victims))
        for name in sorted(self.victims):
            if self.rng.random() < 0.4:
                await asyncio.sleep(self.rng.uniform(0, 6))
                await self.resume(name)
        left = set(names) - self.victims
        await until(partial(self.as_desired, left), seconds=120, what=f"the workers {sorted(left)}", every=0.1)

        assert not slurm.killed, f"deleted with a running job: {slurm.killed}"

    async def operator_has_settled(self) -> bool:
        nodesets = await self.operator.items(self.operator.nodesets)
        return all(each.get("status", {}).get("readyReplicas") == WORKERS for each in nodesets)

    async def resume(self, name: str) -> None:
        """An operator resumes a victim and a job starts there; then the scaler takes it back."""
        workers = await self.agent.workers() or {}
        slurm = self.operator.slurm
        if name not in workers or workers[name].phase != "running" or name not in slurm.drained:
            self.counts["too late to resume"] += 1
            return
        if slurm.drained[name] != OUR_REASON:
            # The operator wants to delete it: it waits for the job.
            self.counts["resumed while the operator deletes"] += 1
            return
        del slurm.drained[name]
        slurm.busy.add(name)
        self.counts["taken back"] += 1
        self.victims.discard(name)
        self.generation += 1
        left = WORKERS - len(self.victims)
        self.agent.publish(desired_state(self.generation, {SHAPE: (left, self.victims)}))
        await asyncio.sleep(self.rng.uniform(0, 1))
        self.agent.desire_all(self.generation, {SHAPE: (left, self.victims)})

    async def held_up(self) -> None:
        if self.rng.random() < 0.3:
            self.counts["agent held up"] += 1
            await asyncio.sleep(self.rng.uniform(0, 2))

    async def as_desired(self, left: set[str]) -> bool:
        workers = await self.agent.workers()
        return workers is not None and workers.keys() == left


@pytest.mark.usefixtures("fake_nodes")
@pytest.mark.parametrize("seed", range(SEED, SEED + SEEDS))
async def test_only_victims_that_still_stand_drained_are_removed(
    plane: ControlPlane, namespace: str, tmp_path: Path, seed: int
) -> None:
    await define(plane, await definitions("slinky", "*nodeset*"))
    counts: Counter[str] = Counter()

    left = await play(Workers(plane, namespace), tmp_path, seed, counts)

    print(f"seed {seed} on Slinky's NodeSets: {dict(counts)}, {left} of {WORKERS} workers left", file=sys.stderr)
    assert left == WORKERS - counts["victims"] + counts["taken back"]
    assert not counts["worker.lost"]


async def play(workers: Workers, folder: Path, seed: int, counts: Counter[str]) -> int:
    """Plays one round and returns the number of workers that are left."""
    kubeconfig, namespace = workers.kubernetes.kubeconfig, workers.namespace
    nodeset = {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "NodeSet",
        "metadata": {"name": "w", "labels": {SHAPE_LABEL: SHAPE}},
        "spec": {"controllerRef": {"name": "slurm"}, "replicas": 0},
    }
    await workers.kubectl("create", "--filename=-", stdin=json.dumps(nodeset))
    facts: list[object] = []
    substrate_of = partial(KubernetesSubstrate, target_factory=slinky)
    async with operator(LaggingSlinkyOperator, kubeconfig, namespace) as running:
        assert isinstance(running, LaggingSlinkyOperator)
        running.lag(seed)
        async with agent(kubeconfig, namespace, folder, facts, substrate_of=substrate_of) as edge:  # type: ignore[arg-type]
            await Round(seed, edge, running, counts).play()
            left = len(await edge.workers() or {})
        counts["drains undone by the operator"] += running.slurm.undone
    counts.update(getattr(fact, "kind", "") for fact in facts)
    return left
