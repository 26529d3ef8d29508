"""What the tests across services share: the lab, two kinds of labs of a file's own, and the Compose project.

A test leaves its lab as it found it: without jobs, with the same policy, and with workers that go by themselves. A file
with a lab of its own, or another policy, says so by a fixture `lab`, on which the other fixtures here depend.
"""

import json
import os
import secrets
from collections.abc import AsyncIterator
from hashlib import sha256

import pytest
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.demo.observer import Observer, observe
from clusterra_lab.machine.container import engine_answers
from clusterra_lab.machine.process import until
from clusterra_lab.parts.otlp import OtlpReceiver, otlp_receiver
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import LabOptions, Stack, stack
from composition import Composition, composition
from site_lab import site
from submit_replicas import Replicas, Second, all_replicas, second_replicas

OPERATOR_SCOPES = ("tenants:read", "tenants:write")


def _needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("the lab needs root, because its Slurm runs jobs as several users")


@pytest.fixture(scope="session")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """The lab: real NATS, DynamoDB, OIDC and Slurm, and the five services as processes."""
    _needs_root()
    options = LabOptions(ScalingPolicy(idle_seconds=2.0), environment={"CLUSTERRA_COST_NOTE_SECONDS": "1"})
    async with stack(tmp_path_factory.mktemp("lab"), options) as running:
        yield running


@pytest.fixture(scope="module")
async def site_lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """A lab of a file's own, with GPUs, licences, partitions and limits."""
    _needs_root()
    async with site(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture(scope="module")
async def receiver() -> AsyncIterator[OtlpReceiver]:
    """Receives the spans of `production_lab`."""
    async with otlp_receiver() as receiving:
        yield receiving


@pytest.fixture(scope="session")
def operator_token() -> str:
    """The token of an operator of `production_lab` with OPERATOR_SCOPES."""
    return f"clusterra-operator_{secrets.token_urlsafe(32)}"


@pytest.fixture(scope="module")
async def production_lab(
    tmp_path_factory: pytest.TempPathFactory, receiver: OtlpReceiver, operator_token: str
) -> AsyncIterator[Stack]:
    """A lab of a file's own, as in production: NATS in operator mode, a receiver of spans, and operators."""
    _needs_root()
    folder = tmp_path_factory.mktemp("production")
    operators = folder / "operators.yaml"
    digest = sha256(operator_token.encode()).hexdigest()
    operator = {"name": "anna", "token_sha256": digest, "scopes": OPERATOR_SCOPES}
    operators.write_text(json.dumps({"operators": [operator]}))
    allowed = {"CLUSTERRA_WEBHOOK_NETWORKS": '["127.0.0.0/8"]'}
    environment = {**receiver.environment, "CLUSTERRA_OPERATORS_FILE": str(operators), **allowed}
    options = LabOptions(ScalingPolicy(idle_seconds=1.0), environment=environment, nats_login="credentials")
    async with stack(folder / "lab", options) as running:
        yield running


@pytest.fixture
async def observer(lab: Stack) -> AsyncIterator[Observer]:
    async with observe(lab.bus, lab.cluster) as observer:
        await until(lambda: observer.workers is not None, seconds=120, what="a heartbeat of the edge-agent")
        yield observer


@pytest.fixture
async def ada(lab: Stack) -> AsyncIterator[User]:
    async with lab.user("ada@acme.example") as user:
        yield user


@pytest.fixture(scope="module")
async def second(lab: Stack) -> AsyncIterator[Second]:
    async with second_replicas(lab) as running:
        yield running


@pytest.fixture
async def replicas(lab: Stack, ada: User, second: Second) -> AsyncIterator[Replicas]:
    async with all_replicas(lab, ada, second) as running:
        yield running


@pytest.fixture(scope="session")
async def composed() -> AsyncIterator[Composition]:
    """The whole product in containers, as compose.yaml says."""
    if not await engine_answers():
        pytest.skip("no container engine answers")
    async with composition() as running:
        yield running
