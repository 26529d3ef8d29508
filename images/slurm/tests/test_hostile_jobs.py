"""Jobs that act against what root does for them: none survives it, blinds it, or leads it to the files of others."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from worker_pod import pod
from worker_site import ALICE, BOB, Site, worker_site

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a mount namespace")

SCRIPTS = Path(__file__).parents[1]
KILLER = "perl -e '1 while kill(KILL => -1) || 1'"
"""Kills all processes of its user but itself, again and again."""
ESCAPED = "perl -MPOSIX -e 'fork and exit; POSIX::setsid(); 1 while kill(KILL => -1) || 1'"
"""The same, in a process that Slurm does not take for one of the job's."""
MACHINE = """
mount -t tmpfs -o mode=0755 run /run; mount -t tmpfs -o mode=1777 tmp /tmp; mount -t proc proc /proc
mkdir -p /run/clusterra/jobs/5001/7 /mnt/efs; mount -t tmpfs -o mode=1777 efs /mnt/efs
echo '1 5001' >/run/clusterra/jobs/5001/7/w1
as() { setpriv --reuid=$1 --regid=$1 --clear-groups env -i PATH=/usr/bin:/bin SLURM_JOB_ID=7 sh -c "$2"; }
script() { env -i SLURM_JOB_UID=5001 SLURM_JOB_GID=5001 SLURM_JOB_USER=alice SLURM_JOB_ID=7 SLURM_JOB_CPUS_PER_NODE=1 \\
  SLURM_JOB_WORK_DIR=/mnt/efs SLURM_JOB_STDOUT=$OUTPUT SLURM_JOB_STDERR=$OUTPUT SLURMD_NODENAME=w1 sh /srv/$1; }
OUTPUT=/mnt/efs/job_%j.out
"""


def played(tmp_path: Path, script: str) -> str:
    """What a script prints. In it, `script NAME` runs a script of the worker, and `as UID COMMAND` a user's command."""
    for name in ("prolog", "epilog", "worker-limits", "worker-namespace", "note-names"):
        shutil.copy(SCRIPTS / name, tmp_path)
    bound = f"mount --bind {tmp_path} /srv"
    namespaces = ["unshare", "--mount", "--ipc", "--pid", "--fork", "--kill-child=KILL", "--propagation=private"]
    command = [*namespaces, "sh", "-ec", f"{bound}\n{MACHINE}\n{script}"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=180).stdout


@pytest.mark.parametrize("machine", ["a worker's container", "a machine with others"])
def test_no_loop_that_kills_outlives_its_job(tmp_path: Path, machine: str) -> None:
    rounds = 5
    marked = ": >/run/clusterra/worker" if machine == "a worker's container" else ":"

    left = played(
        tmp_path,
        f"""
        {marked}
        setpriv --reuid=5002 sleep 1000 &
        for round in $(seq {rounds}); do
          mkdir -p /run/clusterra/jobs/5001/7
          as 5001 "{ESCAPED}" || :
          until pgrep --uid 5001 >/dev/null; do sleep 0.01; done
          script epilog
          # A process that was killed is there until it has had its next turn of a CPU.
          for wait in $(seq 80); do pgrep --uid 5001 >/dev/null || break; sleep 0.1; done
          echo $(pgrep --uid 5001 | wc --lines) $(pgrep --uid 5002 | wc --lines)
        done
        """,
    )

    assert left.splitlines() == ["0 1"] * rounds


def test_an_epilog_ends_nothing_that_acts_for_another_user(tmp_path: Path) -> None:
    look = "setpriv --ruid=65531 --euid=5002 --regid=5002 --clear-groups sleep 1000"

    left = played(
        tmp_path,
        f": >/run/clusterra/worker; {look} & as 5001 'sleep 1000 &'; script epilog; ps --no-headers -eo ruid,args",
    )

    assert [line.split() for line in left.splitlines() if "sleep" in line] == [["65531", "sleep", "1000"]]


DEEP = "perl -e 'for (1..30) { mkdir q(x) x 200; chdir q(x) x 200 } open F, q(>f); print F q(x) x 9e6; chmod 0, q(.)'"
"""A file whose path is too long for any program that names it whole, in a closed folder."""


def test_nothing_that_an_epilog_cannot_name_or_see_is_left(tmp_path: Path) -> None:
    told = played(
        tmp_path,
        f"""
        as 5001 "cd /tmp; {DEEP}"
        for uid in 5001 5002; do as $uid "perl -e 'shmget($uid, 1e6, 0600 | 01000) // die'"; done
        script epilog
        ls -A /tmp; ipcs --shmems | awk '$3 ~ /^500/ {{ print $3 }}'
        """,
    )

    assert told.split() == ["5002"]


def test_a_look_counts_no_file_twice_and_fails_at_one_that_it_cannot_name(tmp_path: Path) -> None:
    look = "sed -n '/^used_kib/,/^LOOK$/p' /srv/worker-limits >/run/look; echo } >>/run/look; . /run/look; state=/run"

    told = played(
        tmp_path,
        f"""
        {look}
        as 5001 'cd /tmp; head --bytes=4M /dev/zero >a; ln a b; mkdir no; head --bytes=4M /dev/zero >no/c; chmod 0 no'
        used_kib 5001 5001 /tmp
        as 5001 "cd /tmp; {DEEP}"
        used_kib 5001 5001 /tmp 2>&1 || echo failed
        """,
    )

    assert told.splitlines() == ["8192", "a path of the user is too long", "failed"]


def test_a_look_charges_nobody_with_the_time_that_folders_of_others_take(tmp_path: Path) -> None:
    """A user has made more folders than can be listed in time. Here each takes 10 ms, and the look ends after 2 s."""
    slow = "s/^ *my (.path) =/select undef, undef, undef, 0.01; &/; s/alarm 4;/alarm 1;/; s/KILL 6 /KILL 2 /"
    look = (
        f"sed -n '/^used_kib/,/^LOOK$/p' /srv/worker-limits | sed '{slow}' >/run/look; echo }} >>/run/look; . /run/look"
    )

    told = played(
        tmp_path,
        f"""
        {look}; state=/run
        as 5002 "mkdir /tmp/many; chmod 0755 /tmp/many; cd /tmp/many; seq 600 | xargs mkdir --mode=0755"
        as 5001 'head --bytes=4K /dev/zero >/tmp/mine'
        used_kib 5001 5001 /tmp || echo failed
        """,
    )

    assert told.splitlines() in (["0"], ["4"])


def test_no_old_output_becomes_that_of_another_job(tmp_path: Path) -> None:
    told = played(
        tmp_path,
        """
        script prolog; echo old >/mnt/efs/job_7.out; cd /mnt/efs
        chown 5002 job_7.out; as 5002 'chmod 0666 job_7.out'
        script prolog
        stat --format='%u %a %s' job_7.out; cat job_7.out.*
        """,
    )

    assert told.splitlines() == ["5001 640 0", "old"]


def test_no_job_takes_the_name_of_a_file_of_another_user(tmp_path: Path) -> None:
    told = played(
        tmp_path,
        """
        as 5002 'umask 077; echo mine >/mnt/efs/model-7.pt'
        OUTPUT=/mnt/efs/model-%j.pt; script prolog
        ls /mnt/efs | grep -v session; cat /mnt/efs/model-7.pt
        """,
    )

    assert told.splitlines() == ["home", "model-7.pt", "mine"]


PLANTED = {
    "a link to the shared folder": "ln -s /mnt/efs {0}",
    "a link to a folder of root": "ln -s /srv {0}",
    "a link that leads nowhere": "ln -s /nowhere {0}",
    "a FIFO": "mkfifo {0}",
    "a file": "touch {0}",
    "a folder": "mkdir -m 0700 {0}",
}


@pytest.mark.parametrize("planted", PLANTED)
def test_what_a_user_plants_leads_root_nowhere(tmp_path: Path, planted: str) -> None:
    """A user takes each name in a folder of all users that root will use, before the prolog, a look and the epilog."""
    plant = PLANTED[planted]
    names = ["/tmp/job-7", "/tmp/.private", "/mnt/efs/home", "/mnt/efs/job_7.out", "/mnt/efs/job_7.session"]
    inside = "mkdir -p /tmp/.private/a 2>/dev/null && " + plant.format("/tmp/.private/a/b") + " || :"

    told = played(
        tmp_path,
        f"""
        chmod 0755 /srv; as 5002 '{"; ".join(plant.format(name) for name in names)}'; as 5002 '{inside}'
        ls -la --time-style=+ /srv >/run/before; stat --format='%a %u' /mnt/efs /srv >>/run/before
        script prolog; script worker-limits; script epilog
        ls -la --time-style=+ /srv >/run/after; stat --format='%a %u' /mnt/efs /srv >>/run/after
        cmp /run/before /run/after && echo untouched
        stat --format='%u %a %F' /mnt/efs/job_7.out
        """,
    )

    assert told.splitlines() == ["untouched", "5001 640 regular empty file"]


HOMES = """
mount -t tmpfs -o mode=0755 sbin /usr/sbin
printf '#!/bin/sh\\ncat /run/told\\n' >/usr/sbin/scontrol; chmod 0755 /usr/sbin/scontrol
home() { echo "alice:*:5001:5001:alice:$1:/bin/sh" >/run/told; env -i PATH=/bin sh /srv/note-names; }
"""
"""`home PATH` runs `note-names` where Slurm's credentials say that alice has this home."""


def test_a_home_anywhere_is_made_for_its_user_and_closed(tmp_path: Path) -> None:
    told = played(
        tmp_path,
        f"""
        {HOMES}
        home /mnt/efs/people/a/alice; home /mnt/efs/people/a/alice
        stat --format='%n %u %g %a' /mnt/efs/people /mnt/efs/people/a /mnt/efs/people/a/alice
        as 5001 'mkdir /mnt/efs/people/a/alice/mine'; home /mnt/efs/people/a/alice; ls /mnt/efs/people/a/alice
        """,
    )

    assert told.splitlines() == [
        "/mnt/efs/people 0 0 755",
        "/mnt/efs/people/a 0 0 755",
        "/mnt/efs/people/a/alice 5001 5001 700",
        "mine",
    ]


@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.parametrize("place", ["/mnt/efs/people", "/mnt/efs/people/alice", "/mnt/efs/people/a/alice"])
def test_no_home_is_made_where_a_user_could_lead_it(tmp_path: Path, planted: str, place: str) -> None:
    """Another user takes the name of the home, or of a folder on the way to it, which stay as they are."""
    on_the_way = f"mkdir -m 0777 {place.rpartition('/')[0]}" if place.count("/") > 3 else ":"

    told = played(
        tmp_path,
        f"""
        {HOMES}
        chmod 0755 /srv; mkdir -m 1777 -p /mnt/efs/people; [ {place} != /mnt/efs/people ] || rmdir /mnt/efs/people
        as 5002 '{on_the_way} 2>/dev/null; {PLANTED[planted].format(place)}'
        ls -lanR --time-style=+ /srv /mnt/efs >/run/before
        home {place if place.endswith("alice") else place + "/alice"}
        ls -lanR --time-style=+ /srv /mnt/efs >/run/after
        cmp /run/before /run/after && echo untouched
        """,
    )

    assert told.splitlines() == ["untouched"]


@pytest.mark.parametrize("told", ["/mnt/efs/../srv/alice", "/", "relative", "/mnt/efs//alice", "/mnt/efs/open/alice"])
def test_a_home_that_is_no_place_for_one_is_not_made(tmp_path: Path, told: str) -> None:
    left = played(
        tmp_path,
        f"""
        {HOMES}
        mkdir -m 0777 /mnt/efs/open; chmod 0777 /mnt/efs/open
        home '{told}'; find /mnt/efs /srv -name alice
        """,
    )

    assert left == ""


@pytest.mark.parametrize("planted", PLANTED)
def test_the_private_folders_of_jobs_are_below_a_folder_of_root(tmp_path: Path, planted: str) -> None:
    plant = PLANTED[planted].format("/tmp/.private")

    told = played(
        tmp_path,
        f"""
        as 5002 '{plant}'; mkdir -p /run/slurm; ln -s /bin/true /run/slurmd
        /srv/worker-namespace /run/slurmd
        stat --format='%u %F' /tmp/.private
        """,
    )

    assert told.splitlines() == ["0 directory"]


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with worker_site(tmp_path_factory.mktemp("hostile")) as site:
        yield site


async def test_a_job_that_kills_the_looks_at_its_files_is_stopped(site: Site) -> None:
    """Of 128 MiB, the user of one of eight CPUs may use 16."""
    small = "mount -t tmpfs -o mode=0777,size=128m volume /tmp"
    eight = {"CLUSTERRA_CPUS": "8", "CLUSTERRA_CONFIG_OVERRIDES": "yes"}
    async with pod("blind", site, machine=small, environment=eight):
        bad = await site.submit(ALICE, f'head --bytes=30M /dev/zero >"$TMPDIR/big"; exec {KILLER}')

        await site.in_state(bad, "FAILED")

        assert "AdminComment=exceeded scratch limit: " in await site.ask("show", "job", bad)


async def test_a_name_with_line_breaks_gives_no_job_the_output_of_another(site: Site) -> None:
    async with pod("names", site):
        first = int(await site.submit(BOB, "true"))
        own, victim = first + 1, first + 2
        name = "".join(f"\nJobId={own} ArrayJobId={victim} ArrayTaskId={task} x" for task in range(2))
        attack = await site.cluster.sbatch(
            BOB, "#!/bin/sh\ntrue\n", "--mem=64", f"--job-name={name}", "--output=job_%A.%a.out"
        )
        await site.in_state(attack, "COMPLETED")

        array = await site.cluster.sbatch(
            ALICE, "#!/bin/sh\necho mine\n", "--mem=64", "--array=0-1", "--output=job_%A.%a.out"
        )

        await site.in_state(array, "COMPLETED\nCOMPLETED")

    assert (int(attack), int(array)) == (own, victim)
    shared = site.cluster.shared_dir
    assert {file.name: file.stat().st_uid for file in shared.glob(f"job_{victim}.*.out")} == {
        f"job_{victim}.{task}.out": ALICE.uid for task in range(2)
    }
