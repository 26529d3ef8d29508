"""Jobs of two users on one worker with the rights of its pod: neither takes the memory or the scratch of the other."""

import os
from collections.abc import AsyncIterator

import pytest
from clusterra_contracts.identity import SlurmUser
from worker_pod import pod
from worker_site import ALICE, BOB, Site, worker_site

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's namespaces can only be made by root")

ALLOCATE_300_MB = "taken=$(head --bytes=300000000 /dev/zero | tr '\\0' x); echo survived ${#taken}; sleep 1000"


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with worker_site(tmp_path_factory.mktemp("neighbours")) as site:
        yield site


def neighbour(site: Site) -> str:
    """A script that ends once the test says so."""
    return f"echo begun; until [ -e {site.cluster.shared_path}/enough ]; do sleep 0.1; done"


async def test_only_the_job_with_too_much_memory_is_killed(site: Site) -> None:
    async with pod("memory", site):
        good = await site.submit(BOB, neighbour(site))
        await site.has_written(good, "begun")

        bad = await site.submit(ALICE, ALLOCATE_300_MB)

        await site.in_state(bad, "FAILED")
        assert "exceeded memory limit" in site.output(bad)
        assert "survived" not in site.output(bad)
        assert await site.state(good) == "RUNNING"

        (site.cluster.shared_dir / "enough").touch()

        await site.in_state(good, "COMPLETED")
    (site.cluster.shared_dir / "enough").unlink()


FILLS = {
    "a file": 'head --bytes=20M /dev/zero >"$TMPDIR/big"',
    "a closed folder": "mkdir /tmp/closed; head --bytes=20M /dev/zero >/tmp/closed/big; chmod 0 /tmp/closed",
    "a deleted file": 'exec 3<>"$TMPDIR/gone"; rm "$TMPDIR/gone"; head --bytes=20M /dev/zero >&3',
    "shared memory": "head --bytes=20M /dev/zero >/dev/shm/big",
}


async def test_only_users_who_fill_the_scratch_are_stopped(site: Site) -> None:
    """Of 128 MiB, the user of one of eight CPUs may use 16."""
    small = "mount -t tmpfs -o mode=0777,size=128m volume /tmp; mount -t tmpfs -o mode=1777,size=128m shm /dev/shm"
    eight = {"CLUSTERRA_CPUS": "8", "CLUSTERRA_CONFIG_OVERRIDES": "yes"}
    async with pod("scratch", site, machine=small, environment=eight) as worker:
        good = await site.submit(BOB, f'head --bytes=12M /dev/zero >"$TMPDIR/fair"; {neighbour(site)}')
        await site.has_written(good, "begun")

        bad = {
            name: await site.submit(SlurmUser(name=f"user{uid}", uid=uid, gid=uid), f"{fill}; sleep 1000")
            for uid, (name, fill) in enumerate(FILLS.items(), start=5010)
        }

        for name, job in bad.items():
            await site.in_state(job, "FAILED")
            assert "AdminComment=exceeded scratch limit: " in await site.ask("show", "job", job), name
        assert await site.state(good) == "RUNNING"

        (site.cluster.shared_dir / "enough").touch()

        await site.in_state(good, "COMPLETED")
        assert await worker.files() == []
    (site.cluster.shared_dir / "enough").unlink()
