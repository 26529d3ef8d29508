"""Jobs run as exactly their user, and users get no rights of others."""

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.slurm_nodes import Drain
from clusterra_proxy.slurmrestd.errors import Forbidden
from proxy_world import ProxyWorld, submission
from slurm_world import SlurmWorld

AGENT_GID = 65532
PRINT_IDENTITY = """\
#!/bin/sh
id -u; id -g; id -G
echo "$USER $LOGNAME $SHELL $HOME"
echo "$PATH"
pwd
"""


async def test_a_job_runs_with_its_users_uid_without_an_account(
    proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser
) -> None:
    user = alice.model_copy(update={"groups": (7001, 7002)})
    submitted = await proxy.submit(user, PRINT_IDENTITY, environment=("LANG=C",))
    job = await proxy.wait_for_end(user, submitted.job_id)

    assert (job.state, job.exit_code, job.uid, job.user) == ("COMPLETED", 0, user.uid, user.name)
    assert job.standard_output == f"{slurm.shared_path}/job_{submitted.job_id}.out"

    output = slurm.shared / f"job_{submitted.job_id}.out"
    made = output.stat()
    assert (made.st_uid, made.st_gid, made.st_mode & 0o7777) == (user.uid, AGENT_GID, 0o640)

    uid, gid, groups, names, path, directory = output.read_text().splitlines()
    assert (int(uid), int(gid)) == (user.uid, user.gid)
    assert {int(group) for group in groups.split()} == {user.gid, 7001, 7002}
    assert names == f"{user.name} {user.name} /bin/sh {slurm.shared_path}/home/{user.name}"
    assert path == "/usr/local/bin:/usr/bin:/bin"
    assert directory == f"{slurm.shared_path}/home/{user.name}"


async def test_a_job_starts_in_the_home_of_its_users_identity(
    proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser
) -> None:
    """As LDAP or a file has it: it is made, and closed to others."""
    user = alice.model_copy(update={"home": f"/home/{alice.name}"})
    script = "#!/bin/sh\npwd; stat --format='%u %a' .; touch new; stat --format=%a new\n"

    submitted = await proxy.submit(user, script)

    await proxy.wait_for_end(user, submitted.job_id)
    told = (slurm.shared / f"job_{submitted.job_id}.out").read_text().splitlines()
    assert told == [user.home, f"{user.uid} 700", "600"]


@pytest.mark.parametrize(
    ("way", "said", "umask"),
    [
        *(("sbatch", said, umask) for said, umask in (("0022", "0077"), ("0027", "0027"), ("0002", "0002"))),
        *(("HTTP", said, umask) for said, umask in (("", "0077"), ("0022", "0022"))),
    ],
)
async def test_the_files_of_a_job_are_closed_unless_its_user_says_otherwise(
    proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser, way: str, said: str, umask: str
) -> None:
    script, output = "#!/bin/sh\numask\n", f"umask-{way}-{said}"
    path = f"{slurm.shared_path}/{output}"

    if way == "HTTP":
        environment = ("PATH=/bin", *((f"SLURM_UMASK={said}",) if said else ()))
        job_id = (await proxy.submit(alice, script, environment=environment, standard_output=path)).job_id
    else:
        # As sbatch takes it from its shell.
        job_id = await slurm.cluster.sbatch(alice, script, f"--output={path}", env={"SLURM_UMASK": said})

    await proxy.wait_for_end(alice, job_id)
    assert (slurm.shared / output).read_text().split() == [umask]
    assert (slurm.shared / output).stat().st_mode & 0o777 == 0o666 & ~int(umask, 8)


async def test_no_job_makes_a_token_of_its_own(proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser) -> None:
    """It would outlive the job, and what its user may do."""
    submitted = await proxy.submit(alice, "#!/bin/sh\nscontrol token lifespan=99999 2>&1\n")

    job = await proxy.wait_for_end(alice, submitted.job_id)

    assert job.state == "FAILED"
    assert "Access/permission denied" in (slurm.shared / f"job_{submitted.job_id}.out").read_text()


@pytest.mark.parametrize("name", ["root", "slurm", "nobody", "clusterra-operator"])
async def test_privileged_names_are_rejected(proxy: ProxyWorld, alice: SlurmUser, name: str) -> None:
    error = await proxy.error_of("submit", submission(alice.model_copy(update={"name": name})))
    assert error.kind == "unauthenticated"
    assert "reserved" in error.detail


async def test_a_name_keeps_its_uid(proxy: ProxyWorld, alice: SlurmUser, bob: SlurmUser) -> None:
    await proxy.submit(alice)
    for other in (alice.model_copy(update={"uid": bob.uid}), bob.model_copy(update={"uid": alice.uid})):
        error = await proxy.error_of("submit", submission(other))
        assert error.kind == "unauthenticated"
        assert "bound to another" in error.detail


async def test_system_groups_are_rejected(proxy: ProxyWorld, alice: SlurmUser) -> None:
    error = await proxy.error_of("submit", submission(alice.model_copy(update={"groups": (0,)})))
    assert error.kind == "unauthenticated"


async def test_a_users_token_gives_no_rights_over_nodes(slurm: SlurmWorld, workers: None, alice: SlurmUser) -> None:
    async with slurm.slurmctld() as slurmctld:
        with pytest.raises(Forbidden, match="Invalid user id"):
            await slurmctld.update_node(slurm.token(alice), "w1", ["DRAIN"], "mine")


async def test_the_proxys_service_user_may_drain(proxy: ProxyWorld, slurm: SlurmWorld) -> None:
    error = await proxy.error_of("drain", Drain(node="nowhere", reason="test"))
    assert error.kind == "not_found"
