"""The image of the command line: small, without the services' packages, and with Slurm's commands by their names."""

import re

import pytest
from container_engine import docker, done, files, inspect
from service_containers import CONFINED, image, locked
from test_image_contents import BASE, DEVELOPMENT, installed

pytestmark = [pytest.mark.containers, pytest.mark.usefixtures("images")]

LIMIT_BYTES = 60_000_000


async def test_it_has_the_command_line_and_its_dependencies_as_locked() -> None:
    listed = await files(image("cli"))
    distributions = installed(listed)
    own = {name for name in distributions if name.startswith("clusterra-")}
    others = {name: version for name, version in distributions.items() if name not in own}

    assert own == {"clusterra-cli", "clusterra-sdk"}
    assert {name: version for name, version in others.items() if locked().get(name) != version} == {}
    assert not DEVELOPMENT & set(others)
    writable = [file.path for file in listed if file.kind != "l" and int(file.mode, 8) & 0o002]
    assert set(writable) <= {"/tmp", "/var/tmp", "/run/lock"}


async def test_it_is_small_and_has_no_user_with_rights() -> None:
    about = await inspect(image("cli"))
    size, base = int(about["Size"]), int((await inspect(BASE))["Size"])

    assert about["Config"]["User"] == "65532:65532"
    assert about["Config"]["Entrypoint"] == ["clusterra"]
    assert 0 < size - base < LIMIT_BYTES


async def test_its_commands_run_confined() -> None:
    version = await done("run", "--rm", "--network=none", *CONFINED, image("cli"), "--version")
    slurms = await done("run", "--rm", "--network=none", *CONFINED, "--entrypoint=squeue", image("cli"), "--version")
    alone = await docker("run", "--rm", "--network=none", *CONFINED, image("cli"), "jobs")

    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert slurms.startswith("slurm ")
    assert alone.returncode == 2, alone.stdout
    assert "CLUSTERRA_URL" in alone.stdout
