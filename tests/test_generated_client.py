"""A client that is generated from slurmrestd's own OpenAPI document works through the gateway of a running lab."""

import json
import os
from pathlib import Path
from typing import Any

import aiohttp
import generated_client
import pytest
from clusterra_lab.machine.process import run
from clusterra_lab.parts.tools import tools_python
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

VERSIONS = ("v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45")


async def document(lab: Stack) -> Any:
    """The OpenAPI document of the lab's slurmrestd, asked directly: the gateway offers a part of its operations."""
    told = await lab.slurm.run("scontrol", "token", "lifespan=600")
    token = told.stdout.strip().removeprefix("SLURM_JWT=")
    headers = {"X-SLURM-USER-NAME": "root", "X-SLURM-USER-TOKEN": token}
    async with (
        aiohttp.ClientSession(lab.slurm.slurmrestd_url, headers=headers) as slurmrestd,
        slurmrestd.get("/openapi/v3") as answer,
    ):
        assert answer.status == 200, await answer.text()
        return json.loads(await answer.read())


def as_answered(document: Any) -> Any:
    """The document, with the two places mended where slurmrestd 26.05 itself answers otherwise than it says."""
    schemas = document["components"]["schemas"]
    for version in VERSIONS:
        # Null for a job that waits.
        fields = schemas[f"{version}_job_info"]["properties"]
        fields["job_resources"] = {"allOf": [fields["job_resources"]], "nullable": True}
    # Empty for a job without an association.
    del schemas["v0.0.42_assoc_short"]["required"]
    return document


async def command(name: str, arguments: list[str], environment: dict[str, str], log: Path) -> str:
    """Runs a Python program with the tools' environment. Returns the last line that it printed."""
    python = str(await tools_python())
    ended = await run(name, [python, *arguments], log=log, cwd=log.parent, env=os.environ | environment)
    assert ended.exit_code == 0, ended.tail()
    return log.read_text().splitlines()[-1]


@pytest.fixture(scope="module")
async def generated(lab: Stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the generated package."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(as_answered(await document(lab))))
    # The generator's own formatting would need a program in the path; nobody reads this code.
    (folder / "config.yml").write_text("post_hooks: []\n")
    output = ["--output-path", str(folder / generated_client.GENERATED), "--config", str(folder / "config.yml")]
    arguments = ["-m", "openapi_python_client", "generate", "--path", "openapi.json", "--meta", "none", *output]
    await command("generator", arguments, {}, folder / "generator.log")
    return folder


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_generated_client_works_with_a_job(
    lab: Stack, ada: User, generated: Path, tmp_path: Path, version: str
) -> None:
    address = f"{lab.gateway_url}/v1/clusters/{ada.cluster}"

    async with ada.api_token(f"generated {version}") as token:
        printed = await command(
            "client",
            [generated_client.__file__, address, version],
            {"PYTHONPATH": str(generated), "SLURM_JWT": token},
            tmp_path / "client.log",
        )

    told = json.loads(printed)
    assert told["names"] == ["generated", "renamed"]
    assert told["uid"] == ada.profile.uid
    assert "CANCELLED" in told["state"]
    assert told["partitions"]
    assert told["controllers"]
    assert (await ada.job(str(told["job_id"]))).state == "CANCELLED"
