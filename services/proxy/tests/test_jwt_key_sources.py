"""The JWT key from AWS Secrets Manager, on a real Slurm: it signs what slurmrestd accepts, and its rotation is seen."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_lab.machine.process import until
from clusterra_lab.parts.aws import Aws
from clusterra_proxy.cluster.cluster import open_cluster
from clusterra_proxy.cluster.condition import Condition
from clusterra_proxy.slurmrestd.errors import SlurmFailed, Unavailable
from clusterra_runtime.secrets.reader import Secrets
from slurm_world import SlurmWorld

REF = ClusterRef(tenant="acme", cluster="main")
NAME = "acme/slurm"
REFERENCE = f"aws-secretsmanager:{NAME}#jwt"


@pytest.fixture
async def manager(emulator: Aws, monkeypatch: pytest.MonkeyPatch) -> "ManagedSecret":
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    return ManagedSecret()


class ManagedSecret:
    """The secret in AWS that holds the key."""

    def __init__(self) -> None:
        self._client = boto3.client("secretsmanager")

    async def create(self, text: str) -> None:
        await asyncio.to_thread(self._client.create_secret, Name=NAME, SecretString=text)

    async def replace(self, text: str) -> None:
        await asyncio.to_thread(self._client.put_secret_value, SecretId=NAME, SecretString=text)


async def test_a_key_in_aws_signs_tokens_that_slurm_accepts_and_its_rotation_is_seen(
    slurm: SlurmWorld, manager: ManagedSecret
) -> None:
    key = Path(slurm.cluster.jwt_key_file).read_text().strip()
    binding = slurm.binding("main").model_copy(update={"jwt_key": REFERENCE})

    async with (
        Secrets(refresh_seconds=0.1, retry_seconds=0.1) as secrets,
        open_cluster(REF, binding, secrets, Condition(REF)) as cluster,
    ):
        with pytest.raises(Unavailable, match="JWT key cannot be read"):
            cluster.mint.operator_token()

        await manager.create(f'{{"jwt": "{key}"}}')
        token = await until(lambda: token_or_none(cluster.mint.operator_token), seconds=90, what="the key")

        assert await cluster.accounting.privileged_names(token)

        await manager.replace('{"jwt": "another-key-of-at-least-32-characters"}')
        other = await until(
            lambda: new if (new := cluster.mint.operator_token()) != token else None, seconds=90, what="the new key"
        )

        with pytest.raises(SlurmFailed):
            await cluster.accounting.privileged_names(other)


def token_or_none(mint: Callable[[], str]) -> str | None:
    try:
        return mint()
    except Unavailable:
        return None
