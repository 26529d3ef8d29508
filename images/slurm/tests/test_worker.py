"""A worker on real Slurm with the rights and volumes of its pod, from its registration to its end."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
from clusterra_lab.machine.process import until
from worker_pod import ended, plain_worker, pod, termination
from worker_site import ALICE, BOB, INSIDE, SECONDS, Site, worker_site

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's namespaces can only be made by root")

AGENT_GID = 65532
"""The group of the edge-agent, in k8s/edge/agent/agent.yaml."""
PROMPT_SECONDS = 25.0
"""Time limit for a hook that must not wait; the default grace time is 100 s."""


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with worker_site(tmp_path_factory.mktemp("worker")) as site:
        yield site


async def drained(name: str, site: Site) -> None:
    async def draining() -> bool:
        return (await site.node(name))[0].startswith("drain")

    await until(draining, seconds=SECONDS, what=f"{name} to be drained", every=0.05)


def wait_for(site: Site, file: str) -> str:
    """A script line that waits for a file in the shared folder."""
    return f"until [ -e {site.cluster.shared_path}/{file} ]; do sleep 0.05; done"


async def test_a_worker_registers_with_its_pods_name_shape_and_family(site: Site) -> None:
    async with pod("w1", site) as worker:
        shown = await site.ask("show", "node", "w1", "--oneliner")

        assert "ActiveFeatures=compute,compute-xs " in shown
        assert "RealMemory=1024 " in shown
        assert " Weight=1 " in shown
        assert "DYNAMIC_NORM" in shown

        modes = await worker.run("stat", "--format=%a %U", "/run", "/run/slurm", "/tmp", "/var/spool/slurmd")
        assert modes.stdout.split("\n")[:4] == ["755 root", "755 root", "1777 root", "755 root"]

        init = worker.init
        init.send_signal(signal.SIGTERM)

        await ended(init)

        assert await worker.process.wait() == 0


@pytest.mark.parametrize("what", [{"CLUSTERRA_CPUS": "4096"}, {"CLUSTERRA_MEMORY_MIB": "999999999"}], ids=str)
async def test_a_machine_of_another_size_registers_only_with_config_overrides(site: Site, what: dict[str, str]) -> None:
    async with pod("w2", site, what, registers=False) as worker:
        assert await worker.process.wait() == 78
        assert '{"misclassified": ' in termination("w2", site).read_text()
        assert await site.node("w2") == ("", "")
    async with pod("w2", site, {**what, "CLUSTERRA_CONFIG_OVERRIDES": "yes"}):
        await site.idle("w2")


async def test_a_job_has_its_own_scratch_and_leaves_nothing_behind(site: Site) -> None:
    kept = site.cluster.shared_dir / "kept"
    script = f"""
id --user; stat --format='%u:%g %a' "$TMPDIR" {site.cluster.shared_path}/home/alice; echo "$TMPDIR"
mkdir {site.cluster.shared_path}/kept && touch {site.cluster.shared_path}/kept/file
ln -s {site.cluster.shared_path}/kept "$TMPDIR/link"; ln -s / "/tmp/link of
two lines"
mkdir --parents "$TMPDIR/closed/deeper" "/tmp/b c/d"; touch "$TMPDIR/closed/deeper/file" "/tmp/-rf" /dev/shm/file
chmod 0 "$TMPDIR/closed" "/tmp/b c"
setsid sleep 1001 & env --ignore-environment /usr/bin/setsid /usr/bin/sleep 1002 &
until pgrep --full --uid 5001 'sleep 1002' && pgrep --full --uid 5001 'sleep 1001'; do sleep 0.01; done
"""

    async with pod("w3", site) as worker:
        job_id = await site.submit(ALICE, script)
        await site.in_state(job_id, "COMPLETED")

        mine = "5001:5001 700"

        assert site.output(job_id).splitlines()[:4] == ["5001", mine, mine, f"/tmp/job-{job_id}"]
        assert await worker.files() == []
        assert await worker.processes() == []
        await site.idle("w3")

    assert [file.name for file in kept.iterdir()] == ["file"]
    assert kept.stat().st_mode & 0o777 == 0o700


async def test_another_job_of_the_same_user_keeps_its_scratch_and_processes(site: Site) -> None:
    async with pod("w4", site) as worker:
        long = await site.submit(
            ALICE, f"touch $TMPDIR/mine /tmp/ours; echo began; {wait_for(site, 'end-long')}; ls $TMPDIR"
        )
        await site.has_written(long, "began")
        short = await site.submit(ALICE, "touch $TMPDIR/gone; setsid sleep 1003 & echo done")

        await site.in_state(short, "COMPLETED")

        assert sorted(await worker.files()) == [f"/tmp/job-{long}", "/tmp/ours"]
        assert not [line for line in await worker.processes() if "1003" in line]

        (site.cluster.shared_dir / "end-long").touch()
        await site.in_state(long, "COMPLETED")

        assert site.output(long).splitlines() == ["began", "mine"]
        assert await worker.files() == []


@pytest.mark.parametrize(
    "squat", ["mkdir --mode=0700 {0} && touch {0}/file", "ln -s /mnt/efs {0}", "ln -s /nowhere {0}"], ids=str.split
)
async def test_a_user_cannot_occupy_the_scratch_path_of_another_users_job(site: Site, squat: str) -> None:
    async with pod("w5", site) as worker:
        end = f"end-{squat.__hash__()}"
        next_scratch = '"/tmp/job-$((SLURM_JOB_ID + 1))"'
        squatter = await site.submit(BOB, f"{squat.format(next_scratch)}; echo began; {wait_for(site, end)}")
        await site.has_written(squatter, "began")
        job_id = await site.submit(ALICE, 'touch "$TMPDIR/file"; stat --format="%u %a %F" "$TMPDIR"; ls "$TMPDIR"')

        await site.in_state(job_id, "COMPLETED")

        assert int(job_id) == int(squatter) + 1
        assert site.output(job_id).splitlines() == ["5001 700 directory", "file"]

        (site.cluster.shared_dir / end).touch()
        await site.in_state(squatter, "COMPLETED")

        assert await worker.files() == []


@pytest.mark.parametrize(
    "squat",
    ["install --mode=0666 /dev/null {0}", "ln -s {1} {0}", "ln -s /nowhere {0}", "ln {1} {0}", "mkdir --mode=0777 {0}"],
    ids=lambda squat: "-".join(squat.split()[:2]),
)
async def test_output_is_a_file_of_its_own_that_only_its_owner_and_the_agent_read(site: Site, squat: str) -> None:
    async with pod("w9", site):
        next_output = f'"{site.cluster.shared_path}/job_$((SLURM_JOB_ID + 1)).out"'
        bait = f"{site.cluster.shared_path}/bait"
        bob = await site.submit(
            BOB, f"rm -f {bait}; install --mode=0666 /dev/null {bait}; {squat.format(next_output, bait)}"
        )
        await site.in_state(bob, "COMPLETED")
        alice = await site.submit(ALICE, "echo mine", "--open-mode=append")

        await site.in_state(alice, "COMPLETED")

        assert int(alice) == int(bob) + 1
        output = site.cluster.shared_dir / f"job_{alice}.out"
        assert not output.is_symlink()
        assert described(output) == (ALICE.uid, AGENT_GID, 0o640)
        assert output.read_text() == "mine\n"
        assert (site.cluster.shared_dir / "bait").read_text() == ""
        # Who reserved the path keeps what was there.
        assert len(list(site.cluster.shared_dir.glob(f"{output.name}.*"))) == 1


async def test_outputs_of_arrays_and_of_plain_sbatch_are_private_too(site: Site) -> None:
    async with pod("w10", site):
        array = await site.cluster.sbatch(
            ALICE, "#!/bin/sh\necho mine\n", "--mem=64", "--array=1-2", "--error=%A.%a.err"
        )
        single = await site.submit(ALICE, "echo more", "--error=deep/%j.err")
        for job_id, states in ((array, "COMPLETED\nCOMPLETED"), (single, "COMPLETED")):
            await site.in_state(job_id, states)

    names = [f"slurm-{array}_1.out", f"slurm-{array}_2.out", f"{array}.1.err", f"{array}.2.err", f"job_{single}.out"]
    for name in names:
        assert described(site.cluster.shared_dir / name) == (ALICE.uid, AGENT_GID, 0o640)
    # The user's own folder: the user decides who reads there.
    assert described(site.cluster.shared_dir / "deep" / f"{single}.err") == (ALICE.uid, ALICE.gid, 0o600)


async def test_a_job_that_runs_again_keeps_its_output(site: Site) -> None:
    async with pod("w11", site):
        job_id = await site.submit(ALICE, "echo began; sleep 60", "--open-mode=append")
        await site.has_written(job_id, "began")
        await site.ask("requeue", job_id)
        await until(lambda: site.output(job_id).count("began") == 2, seconds=SECONDS, what="its second run", every=0.05)
        await site.cluster.run("scancel", job_id)
        await site.in_state(job_id, "CANCELLED")

    assert described(site.cluster.shared_dir / f"job_{job_id}.out") == (ALICE.uid, AGENT_GID, 0o640)


def described(file: Path) -> tuple[int, int, int]:
    """The uid, the gid and the mode of a file."""
    found = file.lstat()
    return found.st_uid, found.st_gid, found.st_mode & 0o7777


async def test_failures_of_prolog_and_epilog_do_not_drain_the_worker(site: Site) -> None:
    async with pod("w15", site) as worker:
        await worker.run("sh", "-c", "rm -rf /run/clusterra && touch /run/clusterra")
        job_id = await site.submit(ALICE, f"mkdir --mode=0777 /tmp/open; echo began; {wait_for(site, 'end-15')}")
        await site.has_written(job_id, "began")
        other = await site.submit(BOB, "mkdir --parents /tmp/open/bobs/own")
        await site.in_state(other, "COMPLETED")
        (site.cluster.shared_dir / "end-15").touch()

        await site.in_state(job_id, "COMPLETED")

        assert await worker.files() == ["/tmp/open"]
        await site.idle("w15")


async def test_the_last_node_of_a_job_on_a_machine_removes_its_scratch(site: Site) -> None:
    job = {"SLURM_JOB_ID": "900001", "SLURM_JOB_UID": "5001", "SLURM_JOB_GID": "5001", "SLURM_JOB_USER": "alice"}

    async def after(script: str, node: str) -> list[str]:
        done = await site.cluster.run(f"{INSIDE}/{script}", env={**job, "SLURMD_NODENAME": node})
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        return (await site.cluster.run("find", "/tmp", "-mindepth", "1")).stdout.split()

    scratch = "/tmp/job-900001"

    assert await after("prolog", "a") == [scratch]

    await site.cluster.run("touch", f"{scratch}/file")
    await site.cluster.run("chown", "5001", f"{scratch}/file")

    assert sorted(await after("prolog", "b")) == [scratch, f"{scratch}/file"]
    assert sorted(await after("epilog", "a")) == [scratch, f"{scratch}/file"]
    assert await after("epilog", "b") == []


async def test_nodes_of_one_job_on_a_machine_share_its_scratch(site: Site) -> None:
    script = "srun --ntasks=2 --ntasks-per-node=1 sh -c 'touch $TMPDIR/$SLURM_PROCID; echo $TMPDIR'; ls $TMPDIR"
    async with plain_worker("w6", site), plain_worker("w7", site):
        job_id = await site.submit(ALICE, script, "--nodes=2")
        await site.in_state(job_id, "COMPLETED")
        assert site.output(job_id).split() == [f"/tmp/job-{job_id}"] * 2 + ["0", "1"]
        left = await site.cluster.run("find", "/tmp", "-mindepth", "1")
        assert left.stdout == ""
        await site.idle("w6")
        await site.idle("w7")


async def test_an_idle_worker_stops_without_waiting(site: Site) -> None:
    async with pod("w8", site) as worker:
        started = time.monotonic()
        stopped = await worker.pre_stop()
        assert time.monotonic() - started < PROMPT_SECONDS
        assert (stopped.returncode, stopped.stdout) == (0, "")
        # A record that stayed could be resumed, and Slurm would start a job on it.
        assert await site.node("w8") == ("", "")


async def test_a_drained_worker_keeps_its_reason_until_its_end(site: Site) -> None:
    async with pod("w9", site) as worker:
        job_id = await site.submit(ALICE, f"echo began; {wait_for(site, 'end-9')}")
        await site.has_written(job_id, "began")
        await site.ask("update", "nodename=w9", "state=drain", "reason=clusterra:idle")
        hook = asyncio.create_task(worker.pre_stop())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(hook), 1.0)

        assert await site.node("w9") == ("draining", "clusterra:idle")

        (site.cluster.shared_dir / "end-9").touch()
        assert (await hook).returncode == 0
        assert await site.node("w9") == ("", "")
        assert await site.state(job_id) == "COMPLETED"


async def test_a_worker_without_a_node_record_stops_without_waiting(site: Site) -> None:
    async with pod("w10", site) as worker:
        await site.ask("delete", "nodename=w10")
        started = time.monotonic()
        assert (await worker.pre_stop()).returncode == 0
        assert time.monotonic() - started < PROMPT_SECONDS


async def test_a_stopping_worker_finishes_its_job_and_starts_no_other(site: Site) -> None:
    async with pod("w11", site) as worker:
        job_id = await site.submit(ALICE, f"echo began; {wait_for(site, 'end-11')}; echo ended")
        await site.has_written(job_id, "began")
        hook = asyncio.create_task(worker.pre_stop())
        await drained("w11", site)

        next_id = await site.submit(ALICE, "true")

        assert not hook.done()

        (site.cluster.shared_dir / "end-11").touch()
        assert (await hook).returncode == 0
        assert await site.state(job_id) == "COMPLETED"
        assert site.output(job_id) == "began\nended\n"
        assert await site.state(next_id) == "PENDING"
        assert await worker.files() == []
        await site.cluster.run("scancel", next_id)


async def test_after_the_grace_time_a_job_is_requeued_and_runs_elsewhere(site: Site) -> None:
    script = f"echo run $SLURM_RESTART_COUNT on $SLURMD_NODENAME; {wait_for(site, 'end-12')}"
    async with AsyncExitStack() as running:
        worker = await running.enter_async_context(pod("w12", site))
        job_id = await site.submit(ALICE, script, "--requeue", "--open-mode=append")
        await site.has_written(job_id, "on w12")

        started = time.monotonic()

        assert (await worker.pre_stop(CLUSTERRA_GRACE_SECONDS="1")).returncode == 0
        assert time.monotonic() - started < PROMPT_SECONDS

        await site.in_state(job_id, "PENDING")
        state, reason = await site.node("w12")

        assert state.startswith(("drain", "down"))
        assert reason == "pod is being deleted: its grace time is over"

        await running.enter_async_context(plain_worker("w13", site))
        await site.has_written(job_id, "run 1 on w13")

        # SlurmdTimeout, after which Slurm would requeue the job anyway.
        assert time.monotonic() - started < 30

        (site.cluster.shared_dir / "end-12").touch()
        await site.in_state(job_id, "COMPLETED")


@contextmanager
def frozen(site: Site) -> Iterator[None]:
    """Stop slurmctld within the block: it accepts connections and answers none."""
    port = site.cluster.slurmctld_port
    (pid,) = {
        connection.pid
        for connection in psutil.net_connections("tcp4")
        if connection.status == psutil.CONN_LISTEN
        and connection.laddr
        and connection.laddr.port == port
        and connection.pid
    }
    slurmctld = psutil.Process(pid)
    slurmctld.suspend()
    try:
        yield
    finally:
        slurmctld.resume()


async def test_without_slurmctld_the_hook_ends_within_its_grace_time(site: Site) -> None:
    async with pod("w14", site) as worker:
        job_id = await site.submit(ALICE, f"echo began; {wait_for(site, 'end-14')}")
        await site.has_written(job_id, "began")
        with frozen(site):
            started = time.monotonic()
            assert (await worker.pre_stop(CLUSTERRA_GRACE_SECONDS="4")).returncode == 0
            assert 4 <= time.monotonic() - started < 10
        # What the hook has said by then is heard in the end.
        await site.in_state(job_id, "PENDING")
        await site.cluster.run("scancel", job_id)
