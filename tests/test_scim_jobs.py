"""A person's job on real Slurm runs under the uid and the groups that their directory has provisioned by SCIM."""

import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.demo.observer import Observer
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.fleet import run_setup
from clusterra_lab.stack.services import provisioning
from clusterra_lab.stack.stack import Stack
from scim_directory import ADA, POSIX_GROUP, POSIX_USER, directory_of, made

POLICY = ScalingPolicy(idle_seconds=2.0)
"""That of the lab."""


async def provision(lab: Stack, source: str) -> None:
    """Applies the lab's provision file with this identity source of the cluster."""
    command, file = provisioning(lab.parts, POLICY), lab.parts.provision_file
    given = json.loads(file.read_text())
    given["tenants"][0]["identity_sources"] = {"campus": {"kind": "scim"}}
    given["tenants"][0]["clusters"][0]["identity_source"] = source
    file.write_text(json.dumps(given))
    await run_setup([command], lab.home.logs)


@pytest.fixture
async def directory(lab: Stack, ada: User, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClientSession]:
    """The directory, whose uids count on the cluster. Its users stay; without the source they count for nothing."""
    async with directory_of(lab, ada, monkeypatch) as directory:
        await provision(lab, "campus")
        yield directory
        await provision(lab, "allocated")
    own = ada.profile.name
    await until(lambda: is_known(ada, lab, own, own), seconds=60, what="the uid that Clusterra allocates", every=0.5)


async def is_known(user: User, lab: Stack, name: str, *groups: str) -> bool:
    """Whether the cluster knows the person by this name, in these groups."""
    async with user.session.get(f"/v1/clusters/{lab.cluster.cluster}/identity") as answer:
        told = await answer.json()
    return told["name"] == name and {each["name"] for each in told["groups"]} == set(groups)


async def test_a_job_runs_under_the_provisioned_uid_and_groups(
    lab: Stack, ada: User, observer: Observer, directory: ClientSession
) -> None:
    posix = {"uid": "alovelace", "uidNumber": 5001, "gidNumber": 5000}
    user = await made(directory, "Users", {"userName": ADA, POSIX_USER: posix})
    await made(directory, "Groups", {"displayName": "people", POSIX_GROUP: {"gidNumber": 5000}})
    chem = {"displayName": "chem", "members": [{"value": user}], POSIX_GROUP: {"gidNumber": 7001}}
    await made(directory, "Groups", chem)
    await until(
        lambda: is_known(ada, lab, "alovelace", "people", "chem"), seconds=60, what="the provisioned user", every=0.5
    )

    script = '#!/bin/bash\necho "$(id -u) $(id -un) $(id -G) $(id -Gn)"\n'
    job = await ada.submit(script, {"name": "who", "memory_per_cpu": 2048})
    await until(lambda: (job.job_id, "job.completed") in observer.job_events, seconds=120, what="the end of the job")

    assert await ada.output(job.job_id) == "5001 alovelace 5000 7001 people chem\n"
