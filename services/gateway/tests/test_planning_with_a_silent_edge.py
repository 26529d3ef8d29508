"""Planning what is staged while the edge does not answer: a submit waits for it once, and not for long."""

import asyncio
from typing import Any

import pytest
from clusterra_contracts.identity import ClusterRef, SlurmUser
from clusterra_contracts.rpc.edge_folders import FolderPage, ListFolder
from clusterra_gateway.identity.access.unix_users import Person
from clusterra_gateway.submission import planning
from clusterra_gateway.submission.models import Submission
from clusterra_gateway.submission.planning import Planning
from clusterra_gateway.submission.staged_files import StagingPlan
from clusterra_gateway.workflows.models import ScriptedWorkflow
from clusterra_gateway.workflows.start import WorkflowStarts, run_id_of
from clusterra_gateway.workflows.table import RUNS
from clusterra_gateway.workflows.workflow_records import WorkflowRecords
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.outbox import Outbox
from gateway_world import no_message

REF = ClusterRef(tenant="acme", cluster="main")


class SilentEdge:
    """An edge that takes requests and never answers."""

    def __init__(self) -> None:
        self.asked = 0

    async def folder(self, _ref: ClusterRef, _look: ListFolder) -> FolderPage:
        self.asked += 1
        never: asyncio.Future[FolderPage] = asyncio.get_running_loop().create_future()
        return await never


class Owner:
    """The owner of a run."""

    class member:  # noqa: N801 - an attribute of a person
        id = "1" * 32

    slurm_user = SlurmUser(name="ada", uid=20001, gid=20001)


class PlansWithoutBucket(Planning):
    """Plans of jobs that stage no inputs."""

    async def _checked(self, _who: Person, _ref: ClusterRef, _submission: Submission) -> tuple[Any, StagingPlan]:
        return None, StagingPlan(folder="run1")


class Idle:
    """Goes on with no run."""

    async def advance(self, _ref: ClusterRef, _run_id: str) -> None:
        return None


async def test_a_run_of_many_steps_asks_a_silent_edge_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "RIGHT_SECONDS", 0.01)
    nothing: Any = None
    edge: Any = SilentEdge()
    idle: Any = Idle()
    owner: Any = Owner()
    step = {
        "script": "#!/bin/sh",
        "job": {"environment": ["PATH=/bin"]},
        "stage_out": [{"source": "*", "destination": "outputs/"}],
    }
    wanted = ScriptedWorkflow.model_validate(
        {"run_name": "x", "steps": [step | {"step_id": f"s{number}"} for number in range(20)]}
    )
    async with MemoryStore() as store:
        await store.create_tables(RUNS)
        records = WorkflowRecords(store, Outbox(store, no_message))
        starts = WorkflowStarts(records, idle, PlansWithoutBucket(nothing, nothing, edge, nothing))
        run_id = run_id_of(REF, owner.member.id, "k")

        async with asyncio.timeout(60):
            await starts.start(owner, REF, wanted, run_id, digest="d")

        spec = await records.spec(REF, run_id, 19)
    assert edge.asked == 1
    assert spec is not None
    assert spec.staging == StagingPlan(folder="run1")
