"""Providers that run their server in a container. Slurm's is tested in `test_slurm`."""

from pathlib import Path

import aiohttp
import nats
import pytest
from clusterra_lab.machine.container import Image, NoContainerEngine, container, engine, engine_answers, remove_marked
from clusterra_lab.machine.process import Recorder, recorded_by
from clusterra_lab.parts.aws import aws_container
from clusterra_lab.parts.nats import IMAGE as NATS_IMAGE
from clusterra_lab.parts.nats import nats_container
from clusterra_lab.parts.oidc import Person, oidc_container
from docker.errors import DockerException  # type: ignore[import-untyped]

pytestmark = pytest.mark.containers


@pytest.fixture
async def image(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if not await engine_answers():
        pytest.skip("no container engine answers")
    with engine() as client:
        try:
            if not client.images.list(name=name):
                client.images.pull(name)
        except DockerException as error:
            pytest.skip(f"no image {name} here: {error}")
    return name


@pytest.mark.parametrize("image", [NATS_IMAGE], indirect=True)
@pytest.mark.usefixtures("image")
async def test_nats_keeps_its_streams_and_its_address_over_sigkill(tmp_path: Path) -> None:
    async with nats_container(tmp_path) as server:
        client = await nats.connect(server.url)
        await client.jetstream().add_stream(name="KEPT", subjects=["kept"])
        await client.jetstream().publish("kept", b"1")
        await client.close()
        await server.kill()
        await server.restart()

        client = await nats.connect(server.url)

        assert (await client.jetstream().stream_info("KEPT")).state.messages == 1
        await client.close()


@pytest.mark.parametrize("image", ["ministackorg/ministack:latest"], indirect=True)
@pytest.mark.usefixtures("image")
async def test_the_aws_emulator_answers(tmp_path: Path) -> None:
    async with aws_container(tmp_path) as aws, aiohttp.ClientSession() as http, http.get(aws.endpoint_url) as answer:
        assert answer.status < 500


async def test_the_oidc_provider_publishes_its_issuer(tmp_path: Path) -> None:
    if not await engine_answers():
        pytest.skip("no container engine answers")
    people = [Person(subject="ada", email="ada@acme.example", name="Ada")]
    async with (
        oidc_container(tmp_path, redirect_uris=["http://127.0.0.1:1/callback"], people=people) as oidc,
        aiohttp.ClientSession() as http,
        http.get(f"{oidc.issuer}/.well-known/openid-configuration") as answer,
    ):
        assert (await answer.json())["issuer"] == oidc.issuer


@pytest.mark.parametrize("image", [NATS_IMAGE], indirect=True)
async def test_containers_of_a_killed_lab_are_found_by_their_label(image: str, tmp_path: Path) -> None:
    with recorded_by(Recorder(lambda process: None, {"MARK": str(tmp_path)})):
        left = container(Image(image))
        await left.__aenter__()

    assert await remove_marked("MARK", str(tmp_path / "another")) == []

    (removed,) = await remove_marked("MARK", str(tmp_path))

    assert image in removed
    assert await remove_marked("MARK", str(tmp_path)) == []


async def test_without_an_engine_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert not await engine_answers()
    with pytest.raises(NoContainerEngine, match="start one"):
        await container(Image(NATS_IMAGE)).__aenter__()
    assert await remove_marked("MARK", str(tmp_path)) == []
