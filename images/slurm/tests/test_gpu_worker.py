"""A worker with GPUs on real Slurm; stand-ins for NVIDIA's devices and driver files replace real GPUs."""

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
PRINT_DEVICES = "echo $CUDA_VISIBLE_DEVICES"
TOGETHER = 'touch "/mnt/efs/$SLURM_JOB_ID"; until [ -e "/mnt/efs/$OTHER" ]; do sleep 0.05; done'
"""Script of a job that waits until the job with the id in OTHER runs, too."""


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with worker_site(tmp_path_factory.mktemp("gpus")) as site:
        yield site


async def test_jobs_get_separate_gpus_also_after_a_reconfigure_and_a_restart(site: Site) -> None:
    async with pod("g1", site, L4, machine=with_gpus(2, "NVIDIA L4")):
        for event in ("", "reconfigure", "restart"):
            if event == "reconfigure":
                await site.ask("reconfigure")
            if event == "restart":
                await site.cluster["slurmctld"].restart()
            await site.registered("g1")
            shown = await site.ask("show", "node", "g1", "--oneliner")
            assert "Gres=gpu:l4:2" in shown
            assert "ActiveFeatures=l4,l4-large " in shown
            assert " Weight=5 " in shown
            assert 'Extra={"open":0}' in shown
            typed = await site.submit(
                ALICE, f"{PRINT_DEVICES}; OTHER=$((SLURM_JOB_ID + 1)); {TOGETHER}", "--gres=gpu:l4:1"
            )
            untyped = await site.submit(BOB, f"{PRINT_DEVICES}; OTHER=$((SLURM_JOB_ID - 1)); {TOGETHER}", "--gpus=1")
            for job_id in (typed, untyped):
                await site.in_state(job_id, "COMPLETED")
            assert {site.output(typed), site.output(untyped)} == {"0\n", "1\n"}
            both = await site.submit(ALICE, PRINT_DEVICES, "--gres=gpu:2")
            await site.in_state(both, "COMPLETED")
            assert site.output(both) == "0,1\n"


async def test_a_worker_without_gpus_works_with_gpu_detection(site: Site) -> None:
    async with pod("g2", site):
        assert "Gres=(null)" in await site.ask("show", "node", "g2", "--oneliner")
        job_id = await site.submit(ALICE, PRINT_DEVICES)
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
async def test_a_machine_without_the_gpus_of_its_shape_does_not_register(
    site: Site, overrides: str, machine: str, gpus: int, model: str
) -> None:
    environment = {**L4, "CLUSTERRA_CONFIG_OVERRIDES": overrides}
    async with pod("g3", site, environment, machine=machine, registers=False) as worker:
        assert await worker.process.wait() == 78

    sizes = json.loads(termination("g3", site).read_text())["misclassified"]

    assert (sizes["expected"]["gpus"], sizes["expected"]["gpu_model"]) == (2, "l4")
    assert (sizes["actual"]["gpus"], sizes["actual"]["gpu_model"]) == (gpus, model)
    assert await site.node("g3") == ("", "")
