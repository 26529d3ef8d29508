"""Fixtures of the gateway's tests: servers, settings, a running gateway."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from clusterra_gateway.settings import Settings
from clusterra_lab.machine.ports import free_port
from clusterra_lab.parts.aws import Aws
from clusterra_lab.parts.declared_nats import declared_nats
from clusterra_lab.parts.nats import NatsServer
from files_world import BUCKET, FilesWorld, s3_client, storage_of
from gateway_world import World, running
from issuer_stand_in import CLIENT_ID, CLIENT_SECRET, IssuerStandIn, issuer_stand_in
from operator_tokens import write_operators

QUICKENED = (
    "accounts.admin_events.INTERVAL_SECONDS",
    "directory.maps.refresh.LOOK_SECONDS",
    "money.budgets.sweep.INTERVAL_SECONDS",
    "money.quotas.sweep.INTERVAL_SECONDS",
    "staging.sweep.INTERVAL_SECONDS",
    "workflows.sweep.INTERVAL_SECONDS",
)
"""The cadences of the gateway's background work."""


@pytest.fixture(scope="session")
async def nats(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NatsServer]:
    async with declared_nats(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture
async def issuer() -> AsyncIterator[IssuerStandIn]:
    async with issuer_stand_in() as issuer:
        yield issuer


@pytest.fixture(scope="session")
def common_settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """What no test changes. To read settings takes as long as a fifth of a gateway's start."""
    folder = tmp_path_factory.mktemp("settings")
    (folder / "session.key").write_bytes(secrets.token_bytes(48))
    (folder / "client.secret").write_text(CLIENT_SECRET)
    return Settings(
        oidc_issuer="http://127.0.0.1:1",
        oidc_client_id=CLIENT_ID,
        oidc_client_secret_file=folder / "client.secret",
        session_key_file=folder / "session.key",
        edge_timeout_seconds=3.0,
        operators_file=write_operators(folder / "operators.yaml", "anna", "rita"),
        secret_folders=(tmp_path_factory.getbasetemp(),),
        templates_dir=Path(__file__).parents[3] / "catalog" / "templates",
    )


@pytest.fixture
def settings(common_settings: Settings, nats: NatsServer, issuer: IssuerStandIn) -> Settings:
    port = free_port()
    own = {"nats_url": nats.url, "http_port": port, "public_url": f"http://127.0.0.1:{port}"}
    return common_settings.model_copy(update=own | {"oidc_issuer": issuer.address})


@pytest.fixture
def quick_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Background work of gateways that start afterwards looks for more to do all the time, not every few seconds."""
    for cadence in QUICKENED:
        monkeypatch.setattr(f"clusterra_gateway.{cadence}", 0.1)
    # Else the first look, before a test has set a quota, would be the only one for a while.
    monkeypatch.setattr("clusterra_gateway.money.quotas.sweep.NO_QUOTA_SECONDS", 0.0)


@pytest.fixture
def short_handover(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that nobody serves is soon given up."""
    monkeypatch.setattr("clusterra_gateway.bus.requests.HANDOVER_SECONDS", 0.2)


@pytest.fixture
async def world(settings: Settings, issuer: IssuerStandIn) -> AsyncIterator[World]:
    async with running(settings, issuer) as world:
        yield world


@pytest.fixture
async def files(emulator: Aws, settings: Settings, issuer: IssuerStandIn, tmp_path: Path) -> AsyncIterator[FilesWorld]:
    s3 = s3_client(emulator)
    s3.create_bucket(Bucket=BUCKET)
    async with (
        running(settings, issuer, storage=storage_of(emulator, tmp_path)) as world,
        aiohttp.ClientSession() as http,
    ):
        world_of_files = FilesWorld(world, emulator, s3, http)
        yield world_of_files
        for key in world_of_files.stored():
            s3.delete_object(Bucket=BUCKET, Key=key)
        for upload in s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", ()):
            s3.abort_multipart_upload(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])
