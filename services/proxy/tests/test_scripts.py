"""Scripts of jobs from slurmdbd, byte for byte as they were submitted, and bounded on their way."""

import base64
import random
import zlib

import pytest
from clusterra_contracts.identity import JobId, SlurmUser
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.slurm_scripts import MAX_SCRIPT_BYTES, PACKED_SCRIPT_BYTES, JobScript, ReadScript
from clusterra_lab.machine.process import until
from clusterra_proxy.requests.script import pack
from clusterra_proxy.slurmrestd.errors import NotFound
from clusterra_runtime.nats import rpc
from proxy_world import ProxyWorld
from slurm_world import SlurmWorld

SCRIPT = "#!/bin/sh\n#SBATCH --comment=none\n\n# größe 'quoted' \"twice\" \\ back\n\ttrue  \n\n"


async def script_of(proxy: ProxyWorld, viewer: Viewer, job_id: JobId) -> str:
    """The script, as soon as slurmdbd has it."""

    async def kept() -> str | None:
        try:
            answer = await proxy.call("script", ReadScript(viewer=viewer, job_id=job_id), JobScript)
        except rpc.RpcFailed as failed:
            if failed.error.kind != "not_found":
                raise
            return None
        return zlib.decompress(answer.packed).decode()

    return await until(kept, seconds=90, what=f"the script of job {job_id}", every=0.2)


async def test_a_script_is_what_was_submitted_for_its_owner_and_admins_only(
    proxy: ProxyWorld, alice: SlurmUser, bob: SlurmUser
) -> None:
    job = (await proxy.submit(alice, SCRIPT, hold=True)).job_id

    assert await script_of(proxy, Viewer(user=alice), job) == SCRIPT
    assert await script_of(proxy, Viewer(user=bob, admin=True), job) == SCRIPT
    error = await proxy.error_of("script", ReadScript(viewer=Viewer(user=bob), job_id=job))
    assert error.kind == "not_found"
    assert "quoted" not in proxy.log.read_text()
    await proxy.cancel(alice, job)


async def test_the_tasks_of_an_array_have_its_script_before_and_after_their_start(
    proxy: ProxyWorld, alice: SlurmUser
) -> None:
    held = (await proxy.submit(alice, SCRIPT, array="1-3", hold=True)).job_id
    ended = (await proxy.submit(alice, SCRIPT, array="0-1")).job_id
    await proxy.wait_for_end(alice, ended)

    for job_id in (held, f"{held}_2", ended, f"{ended}_1"):
        assert await script_of(proxy, Viewer(user=alice), job_id) == SCRIPT
    await proxy.cancel(alice, held)


async def test_where_scripts_are_not_kept_the_answer_names_the_option_that_keeps_them(
    slurm: SlurmWorld, proxy: ProxyWorld, alice: SlurmUser
) -> None:
    async with slurm.scripts_not_kept():
        job = (await proxy.submit(alice, SCRIPT, hold=True)).job_id
        request = ReadScript(viewer=Viewer(user=alice), job_id=job)

        async def refusal() -> str | None:
            error = await proxy.error_of("script", request)
            assert error.kind == "not_found"
            return None if "does not have job" in error.detail else error.hint

        hint = await until(refusal, seconds=90, what=f"job {job} in accounting", every=0.2)
        await proxy.cancel(alice, job)

    assert "AccountingStoreFlags=job_script" in hint


def test_a_script_that_the_bus_cannot_carry_is_refused() -> None:
    plain = "#!/bin/sh\n" + "x" * (MAX_SCRIPT_BYTES - 10)
    noise = random.Random(1).randbytes(PACKED_SCRIPT_BYTES).hex()
    assert zlib.decompress(base64.b64decode(pack(plain))) == plain.encode()
    for large in (plain + "x", noise + noise[::-1]):
        with pytest.raises(NotFound, match="too large"):
            pack(large)
