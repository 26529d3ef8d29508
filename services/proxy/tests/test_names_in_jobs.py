"""In a job, the names of users and groups are known, although the worker has no accounts."""

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_lab.machine.process import until
from clusterra_lab.slurm import plugins
from proxy_world import ProxyWorld
from slurm_world import SlurmWorld

pytestmark = pytest.mark.skipif(not plugins.can_build(), reason="the plugin needs a C compiler")

PRINT_NAMES = """\
#!/bin/sh
id -un
id -gn
id -Gn | tr ' ' '\\n' | sort | xargs
getent passwd "$(id -u)"
getent passwd "$(id -un)"
getent group chem 7002
env -i id -Gn "$(id -un)" | tr ' ' '\\n' | sort | xargs
eval "echo ~$(id -un)"
"""
HOME = "/home/people/ada"


def researcher(user: SlurmUser) -> SlurmUser:
    return user.model_copy(
        update={"group": "people", "gid": 5999, "groups": (7001, 7002), "group_names": ("chem", "bio")}
    )


def expected(user: SlurmUser, home: str) -> list[str]:
    entry = f"{user.name}:*:{user.uid}:5999:{user.name}:{home}:/bin/sh"
    return [user.name, "people", "bio chem people", entry, entry, "bio chem people", home]


def told(output: str) -> list[str]:
    """What the script printed. The members of the two groups, which others may be in, are checked here."""
    lines = output.splitlines()
    groups = [line.split(":") for line in lines[5:7]]
    assert [(name, gid) for name, _, gid, _ in groups] == [("chem", "7001"), ("bio", "7002")]
    assert all(lines[0] in members.split(",") for *_, members in groups)
    return lines[:5] + lines[7:]


async def test_a_job_sent_over_http_knows_the_names(proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser) -> None:
    user = researcher(alice).model_copy(update={"home": HOME})

    submitted = await proxy.submit(user, PRINT_NAMES)
    await proxy.wait_for_end(user, submitted.job_id)

    output = (slurm.shared / f"job_{submitted.job_id}.out").read_text()
    assert told(output) == expected(user, HOME)


async def test_a_job_of_sbatch_knows_the_names(proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser) -> None:
    user = researcher(alice)

    job_id = await slurm.cluster.sbatch(user, PRINT_NAMES, "--mem=64", "--output=names_%j.out")
    await proxy.wait_for_end(user, job_id)

    output = (slurm.shared / f"names_{job_id}.out").read_text()
    assert told(output) == expected(user, f"{slurm.shared_path}/home/{user.name}")


async def test_a_user_who_left_a_group_is_no_longer_its_member(
    proxy: ProxyWorld, slurm: SlurmWorld, alice: SlurmUser, bob: SlurmUser
) -> None:
    script = "#!/bin/sh\ngetent group bio\n"
    for user in (researcher(alice), researcher(bob)):
        await proxy.wait_for_end(user, (await proxy.submit(user, script)).job_id)
    left = researcher(alice).model_copy(update={"groups": (7001,), "group_names": ("chem",)})

    submitted = await proxy.submit(left, script)
    await proxy.wait_for_end(left, submitted.job_id)

    members = (slurm.shared / f"job_{submitted.job_id}.out").read_text().strip().rpartition(":")[2].split(",")
    assert bob.name in members
    assert alice.name not in members


async def test_names_of_the_system_are_not_replaced(slurm: SlurmWorld, workers: None, alice: SlurmUser) -> None:
    """A token of another mint may say that a user is in the group `root`, or is called `daemon`."""
    user = SlurmUser(name="daemon", uid=alice.uid, gid=alice.gid, groups=(6999,), group_names=("root",))

    job_id = await slurm.cluster.sbatch(
        user, "#!/bin/sh\ngetent passwd daemon; getent group root\n", "--mem=64", "--output=names_%j.out"
    )
    output = slurm.shared / f"names_{job_id}.out"
    await until(lambda: output.exists() and output.read_text().count("\n") == 2, seconds=90, what="the job's output")

    assert [line.split(":")[2] for line in output.read_text().splitlines()] == ["1", "0"]
