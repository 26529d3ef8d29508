"""A worker with GPUs on real Slurm: the devices and the driver's files are as NVIDIA's, and there is no GPU."""

import json
import os
from collections.abc import AsyncIterator

import pytest
from worker_pod import pod, termination, with_gpus
from worker_site import ALICE, BOB, Site, worker_site

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's namespaces can only be made by root")

L4 = {
    "CLUSTERRA_SHAPE": "l4-large",
    "CLUSTERRA_FAMILY": "l4",
    "CLUSTERRA_GPUS": "2",
    "CLUSTERRA_GPU_MODEL": "l4",
    "CLUSTERRA_WEIGHT": "5",
}
SHOWN = "echo $CUDA_VISIBLE_DEVICES"
TOGETHER = 'touch "/mnt/efs/$SLURM_JOB_ID"; until [ -e "/mnt/efs/$OTHER" ]; do sleep 0.05; done'
"""A job goes on when the one named by OTHER runs as well."""


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with worker_site(tmp_path_factory.mktemp("gpus")) as site:
        yield site


async def test_jobs_have_gpus_of_their_own_also_after_a_reconfigure_and_a_restart(site: Site) -> None:
    async with pod("g1", site, L4, machine=with_gpus(2, "NVIDIA L4")):
        for begun_again in ("", "by reconfigure", "by restart"):
            if begun_again == "by reconfigure":
                await site.ask("reconfigure")
            if begun_again == "by restart":
                await site.cluster["slurmctld"].restart()
            await site.registered("g1")
            shown = await site.ask("show", "node", "g1", "--oneliner")
            assert "Gres=gpu:l4:2" in shown
            assert "ActiveFeatures=l4,l4-large " in shown
            assert " Weight=5 " in shown
            assert 'Extra={"open":0}' in shown
            typed = await site.submit(ALICE, f"{SHOWN}; OTHER=$((SLURM_JOB_ID + 1)); {TOGETHER}", "--gres=gpu:l4:1")
            untyped = await site.submit(BOB, f"{SHOWN}; OTHER=$((SLURM_JOB_ID - 1)); {TOGETHER}", "--gpus=1")
            for job_id in (typed, untyped):
                await site.in_state(job_id, "COMPLETED")
            assert {site.output(typed), site.output(untyped)} == {"0\n", "1\n"}
            both = await site.submit(ALICE, SHOWN, "--gres=gpu:2")
            await site.in_state(both, "COMPLETED")
            assert site.output(both) == "0,1\n"


async def test_a_worker_without_gpus_is_one_there_as_well(site: Site) -> None:
    async with pod("g2", site):
        assert "Gres=(null)" in await site.ask("show", "node", "g2", "--oneliner")
        job_id = await site.submit(ALICE, SHOWN)
        await site.in_state(job_id, "COMPLETED")


@pytest.mark.parametrize(
    ("machine", "gpus", "model"),
    [
        (with_gpus(1, "NVIDIA L4"), 1, "NVIDIA L4"),
        (with_gpus(4, "NVIDIA L40S"), 4, "NVIDIA L40S"),
        (with_gpus(2, "Tesla T4"), 2, "Tesla T4"),
        ("", 0, ""),
    ],
    ids=["too few", "a longer name", "another model", "none"],
)
@pytest.mark.parametrize("overrides", ["no", "yes"])
async def test_a_machine_without_the_gpus_of_its_shape_is_no_worker(
    site: Site, overrides: str, machine: str, gpus: int, model: str
) -> None:
    told = {**L4, "CLUSTERRA_CONFIG_OVERRIDES": overrides}
    async with pod("g3", site, told, machine=machine, registers=False) as worker:
        assert await worker.process.wait() == 78

    said = json.loads(termination("g3", site).read_text())["misclassified"]

    assert (said["expected"]["gpus"], said["expected"]["gpu_model"]) == (2, "l4")
    assert (said["actual"]["gpus"], said["actual"]["gpu_model"]) == (gpus, model)
    assert await site.node("g3") == ("", "")
