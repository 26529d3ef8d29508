"""Jobs of two users on one worker with a private /tmp for each job, with the rights of such a pod."""

import os
from collections.abc import AsyncIterator

import pytest
from clusterra_lab.machine.process import until
from worker_pod import CAPABILITIES, PRIVATE_TMP, pod
from worker_site import ALICE, BOB, SECONDS, Site, worker_site

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's namespaces can only be made by root")

YES = {"CLUSTERRA_PRIVATE_TMP": "yes"}
CLOSED = (
    "mkdir -m 1777 /tmp/sticky; touch /tmp/sticky/file /tmp/of-alice; mkdir /tmp/no; touch /tmp/no/x; chmod 0 /tmp/no"
)


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with worker_site(tmp_path_factory.mktemp("private-tmp"), private_tmp=True) as site:
        yield site


async def test_neighbours_do_not_see_the_files_of_each_other_and_leave_nothing(site: Site) -> None:
    async with pod("private", site, YES, capabilities=PRIVATE_TMP) as worker:
        alice = await site.submit(
            ALICE, f"{CLOSED}; echo begun; until [ -e {site.cluster.shared_path}/enough ]; do sleep 0.1; done"
        )
        await site.has_written(alice, "begun")

        bob = await site.submit(BOB, "ls -A /tmp /var/tmp; echo $TMPDIR; cat /proc/self/mountinfo | grep -c /sticky")

        await site.in_state(bob, "COMPLETED", "FAILED")
        assert site.output(bob) == "/tmp:\n\n/var/tmp:\n/tmp\n0\n"

        (site.cluster.shared_dir / "enough").touch()

        await site.in_state(alice, "COMPLETED")
        await site.idle("private")
        files = await worker.run("find", "/tmp", "-mindepth", "1", "-maxdepth", "4")
        assert files.stdout.split() == ["/tmp/.private", "/tmp/.private/private"]


async def test_a_pod_without_the_rights_never_registers(site: Site) -> None:
    async with pod("rightless", site, YES, capabilities=CAPABILITIES, registers=False) as worker:
        await until(lambda: not worker.process.alive, seconds=SECONDS, what="the end of the container")

        assert await worker.process.wait() == 78
        assert await site.node("rightless") == ("", "")
