"""Scripts over HTTP: for whoever sees the job, and nobody else."""

from gateway_world import World

SCRIPT = "#!/bin/sh\n#SBATCH --time=5\necho grüße\n"


async def test_a_script_is_told_to_those_who_see_the_job(world: World) -> None:
    ada, bob = await world.login("ada@acme.example"), await world.login("bob@acme.example")
    world.acme.add_job("1")
    world.acme.scripts["1"] = SCRIPT

    async with ada.get("/v1/clusters/main/jobs/1/script") as answer:
        assert answer.status == 200, await answer.text()
        assert await answer.json() == {"cluster_id": "main", "job_id": "1", "script": SCRIPT}
    async with bob.get("/v1/clusters/main/jobs/1/script") as refused:
        assert refused.status == 404
        refusal = await refused.json()
    async with bob.get("/v1/clusters/main/jobs/99/script") as unknown:
        assert (unknown.status, (await unknown.json())["type"]) == (404, refusal["type"])


async def test_a_job_whose_script_slurm_does_not_keep_is_a_problem(world: World) -> None:
    ada = await world.login("ada@acme.example")
    world.acme.add_job("1")

    async with ada.get("/v1/clusters/main/jobs/1/script") as answer:
        assert answer.status == 404
        problem = await answer.json()

    assert problem["detail"] == "Slurm's accounting has no script of this job"
    assert "AccountingStoreFlags=job_script" in problem["hint"]
