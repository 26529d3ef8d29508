"""In the jobs of a pod, the names of users and groups are known, although the image has no accounts of them."""

import os
from pathlib import Path

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_lab.slurm import plugins
from clusterra_lab.slurm.config import SHARED_PATH
from worker_pod import CAPABILITIES, PRIVATE_TMP, pod
from worker_site import Site, worker_site

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's namespaces can only be made by root"),
    pytest.mark.skipif(not plugins.can_build(), reason="the plugin needs a C compiler"),
]

ADA = SlurmUser(name="ada", uid=5001, gid=5999, group="people", groups=(7001,), group_names=("chem",), home="/home/ada")
BOB = SlurmUser(name="bob", uid=5002, gid=5999, group="people", groups=(7001,), group_names=("chem",))
PRINT_NAMES = """id -un; id -gn; id -Gn; getent passwd ada; getent group chem people; srun id -un 2>/dev/null || id -un
stat --format='%u %a' "$(getent passwd "$(id -un)" | cut -d: -f6)"
"""


@pytest.mark.parametrize("private_tmp", [False, True], ids=["shared-tmp", "private-tmp"])
async def test_jobs_in_a_pod_know_their_names(tmp_path: Path, private_tmp: bool) -> None:
    environment = {"CLUSTERRA_PRIVATE_TMP": "yes"} if private_tmp else {}
    async with (
        worker_site(tmp_path, private_tmp=private_tmp) as site,
        pod("names", site, environment, capabilities=PRIVATE_TMP if private_tmp else CAPABILITIES) as worker,
    ):
        ada = await output_of(site, ADA)
        bob = await output_of(site, BOB)
        # Root of a pod may have no right to override the mode of a home.
        at_home = await site.submit(
            ADA, "pwd; touch new; stat --format=%a new", "--chdir=/home/ada", f"--output={SHARED_PATH}/job_%j.out"
        )
        await site.in_state(at_home, "COMPLETED", "FAILED")
        files = await worker.run("ls", "-ln", "/run/clusterra-names")

    entry = "ada:*:5001:5999:ada:/home/ada:/bin/sh"
    assert ada == ["ada", "people", "people chem", entry, "chem:*:7001:ada", "people:*:5999:ada", "ada", "5001 700"]
    assert bob[:3] == ["bob", "people", "people chem"]
    assert bob[-1] == "5002 700"
    assert site.output(at_home).splitlines() == ["/home/ada", "600"]
    # Of an earlier job, whose files may still be there.
    assert bob[3] == entry
    assert {frozenset(line.rpartition(":")[2].split(",")) for line in bob[4:6]} == {frozenset({"ada", "bob"})}
    assert all(" 0 0 " in line for line in files.stdout.splitlines()[1:]), files.stdout


async def output_of(site: Site, user: SlurmUser) -> list[str]:
    job_id = await site.submit(user, PRINT_NAMES)
    await site.in_state(job_id, "COMPLETED", "FAILED")
    return site.output(job_id).splitlines()
