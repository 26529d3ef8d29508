"""Members' associations on real Slurm: Slurm's own commands show each their own jobs, and refuse who is deactivated."""

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.slurm_limits import BlockSubmits
from clusterra_lab.machine.process import until
from clusterra_lab.slurm.control_plane import CommandFailed
from clusterra_proxy.slurmrestd.reading.fields import MEMBERS_ACCOUNT
from proxy_world import SCRIPT, ProxyWorld, submission
from slurm_world import SlurmWorld

QUIET = ("--output=/dev/null", "--mem=64")
OWN_COMMANDS = (
    ("sacct", "--allusers", "--allocations", "--format=jobid,user,account,jobname"),
    ("sacctmgr", "show", "association"),
    ("sacctmgr", "show", "user", "withassoc"),
    ("sacctmgr", "show", "account"),
    ("sacctmgr", "show", "event"),
    ("sreport", "user", "top"),
    ("sreport", "cluster", "AccountUtilizationByUser"),
    ("sreport", "job", "SizesByAccount"),
)


async def told(slurm: SlurmWorld, user: SlurmUser, *argv: str) -> str:
    """What a command prints for a user on a login node, its errors too."""
    ids = (f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups")
    done = await slurm.cluster.run("setpriv", *ids, *argv, "-nP", env={"SLURM_JWT": slurm.token(user)})
    return done.stdout + done.stderr


async def jobs_told(slurm: SlurmWorld, user: SlurmUser) -> dict[str, tuple[str, str]]:
    """The user and the account of each job that `sacct -a` shows to a user."""
    rows = (await told(slurm, user, *OWN_COMMANDS[0])).splitlines()
    return {job: (name, account) for job, name, account, _ in (row.split("|") for row in rows)}


@pytest.fixture
async def physics(slurm: SlurmWorld) -> str:
    """An account that an operator has made."""
    await slurm.add_account("physics")
    return "physics"


async def test_slurms_commands_show_a_member_their_own_jobs_and_nobody_elses(
    slurm: SlurmWorld, proxy: ProxyWorld, alice: SlurmUser, bob: SlurmUser
) -> None:
    by_http = (await proxy.submit(alice, name="secret")).job_id
    by_sbatch = await slurm.cluster.sbatch(alice, SCRIPT, "--job-name=secret", *QUIET)
    others = (await proxy.submit(bob)).job_id
    expected = dict.fromkeys((by_http, by_sbatch), (alice.name, MEMBERS_ACCOUNT))

    async def told_own() -> bool:
        return await jobs_told(slurm, alice) == expected

    await until(told_own, seconds=90, what="sacct to show a user's own jobs", every=0.2)

    await until(lambda: _is_shown(slurm, bob, others), seconds=90, what="sacct to show the other's job", every=0.2)
    for command in OWN_COMMANDS:
        shown = await told(slurm, bob, *command)
        assert not {word for word in (alice.name, "secret") if word in shown}, (command, shown)


async def _is_shown(slurm: SlurmWorld, user: SlurmUser, job_id: str) -> bool:
    return set(await jobs_told(slurm, user)) == {job_id}


async def test_a_job_that_names_no_account_has_none_behind_the_proxy(
    slurm: SlurmWorld, workers: None, proxy: ProxyWorld, alice: SlurmUser
) -> None:
    job_id = (await proxy.submit(alice)).job_id

    assert (await proxy.job(alice, job_id)).account == ""
    ended = await proxy.wait_for_end(alice, job_id, seconds=90)
    assert ended.account == ""
    listed = await proxy.jobs(alice, account=MEMBERS_ACCOUNT)
    assert not listed.jobs


async def test_a_member_may_use_each_account_that_exists_and_no_other(
    slurm: SlurmWorld, proxy: ProxyWorld, alice: SlurmUser, bob: SlurmUser, physics: str
) -> None:
    await proxy.submit(bob)
    await slurm.add_account("later")
    named = [(alice, physics), (bob, physics), (bob, "later")]
    jobs = [(await proxy.submit(user, hold=True, account=account)).job_id for user, account in named]
    by_sbatch = await slurm.cluster.sbatch(alice, SCRIPT, "--hold", f"--account={physics}", *QUIET)

    assert [(await proxy.job(user, job)).account for (user, _), job in zip(named, jobs, strict=True)] == [
        physics,
        physics,
        "later",
    ]
    assert (await proxy.job(alice, by_sbatch)).account == physics
    for closed in ("phisics", "root", "operators", "clusterra-deactivated"):
        error = await proxy.error_of("submit", submission(alice, account=closed))
        assert (error.kind, error.detail) == ("rejected", f"there is no account {closed} for jobs")
        assert physics in error.hint
    for (user, _), job in zip(named, jobs, strict=True):
        await proxy.cancel(user, job)
    await proxy.cancel(alice, by_sbatch)


async def test_who_is_deactivated_submits_nothing_until_they_are_reactivated(
    slurm: SlurmWorld, proxy: ProxyWorld, alice: SlurmUser, bob: SlurmUser
) -> None:
    """Also somebody whom slurmdbd does not know yet."""
    await proxy.submit(alice)
    unknown = slurm.new_user()

    await proxy.call("block-submits", BlockSubmits(users=(alice.name, unknown.name)), Done)
    for user, options in ((alice, ()), (alice, (f"--account={MEMBERS_ACCOUNT}",)), (unknown, ())):
        with pytest.raises(CommandFailed, match=f"{user.name} is deactivated"):
            await slurm.cluster.sbatch(user, SCRIPT, *QUIET, *options)
    await slurm.cluster.sbatch(bob, SCRIPT, *QUIET)
    await proxy.call("block-submits", BlockSubmits(users=(alice.name, unknown.name)), Done)
    await proxy.call("block-submits", BlockSubmits(users=(unknown.name,)), Done)
    await slurm.cluster.sbatch(alice, SCRIPT, *QUIET)
    with pytest.raises(CommandFailed, match="deactivated"):
        await slurm.cluster.sbatch(unknown, SCRIPT, *QUIET)
    await proxy.call("block-submits", BlockSubmits(), Done)

    again = await slurm.cluster.sbatch(unknown, SCRIPT, "--hold", *QUIET)
    assert (await proxy.job(unknown, again)).account == ""
    await proxy.cancel(unknown, again)


async def test_a_slurmdbd_that_does_not_answer_refuses_no_submit(
    slurm: SlurmWorld, proxy: ProxyWorld, alice: SlurmUser
) -> None:
    await proxy.submit(alice)
    new = [slurm.new_user() for _ in range(3)]
    found = await slurm.cluster.run("pgrep", "-x", "slurmdbd")
    stopped = await slurm.cluster.run("kill", "-STOP", found.stdout.strip())
    assert stopped.returncode == 0, stopped
    try:
        jobs = [(await proxy.submit(user, hold=True)).job_id for user in (alice, *new)]
        named = (await proxy.submit(alice, hold=True, account="physics")).job_id
    finally:
        await slurm.cluster.run("kill", "-CONT", found.stdout.strip())

    for user, job in zip((alice, *new, alice), (*jobs, named), strict=True):
        await proxy.cancel(user, job)
