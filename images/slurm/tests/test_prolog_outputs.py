"""Which output and session files the prolog makes: no job gets at those of another, whatever name it asks for.

The prolog and the epilog run as they are, in a mount namespace with folders of its own.
"""

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a mount namespace")

SCRIPTS = Path(__file__).parents[1]
VICTIM, OTHER, AGENT_GID = 5001, 6666, 65532
SITE = """
mount -t tmpfs -o mode=0755 run /run; mount -t tmpfs -o mode=1777 tmp /tmp
mkdir -p /mnt/efs; mount -t tmpfs -o mode=1777 efs /mnt/efs
job() { env -i SLURM_JOB_ID=$1 SLURM_JOB_UID=$2 SLURM_JOB_GID=$2 SLURM_JOB_USER=u$2 SLURM_JOB_CPUS_PER_NODE=1 \\
  SLURMD_NODENAME=w1 SLURM_JOB_WORK_DIR=/mnt/efs SLURM_JOB_STDOUT="$3" SLURM_JOB_STDERR="$3" sh /srv/prolog; }
ended() { env -i SLURM_JOB_ID=$1 SLURM_JOB_UID=$2 SLURM_JOB_GID=$2 SLURMD_NODENAME=w1 sh /srv/epilog; }
as() { setpriv --reuid=$1 --regid=$1 --clear-groups sh -c "$2"; }
"""
TRICKS = (
    "job_1%j.out",
    "job_%j%j.out",
    "job_12%j",
    "job_123.out",
    "job_%a_%A.out",
    "../efs/job_1%j.out",
    "job_1_%j.out",
)


def played(tmp_path: Path, script: str) -> list[str]:
    """The lines that a script prints.

    It calls `job <id> <uid> <output>` for each prolog, and `ended <id> <uid>` for each epilog.
    """
    for name in ("prolog", "epilog"):
        (tmp_path / name).write_bytes((SCRIPTS / name).read_bytes())
    bound = f"mount --bind {tmp_path} /srv"
    command = ["unshare", "--mount", "--propagation=private", "sh", "-ec", f"{bound}\n{SITE}\n{script}"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=180).stdout.splitlines()


@pytest.mark.parametrize("trick", TRICKS)
def test_no_job_takes_away_the_output_of_another(tmp_path: Path, trick: str) -> None:
    lines = played(
        tmp_path,
        f"""
        job 123 {VICTIM} "job_%j.out"
        echo results >>/mnt/efs/job_123.out
        job 23 {OTHER} "{trick}"
        stat --format='%u %g %a' /mnt/efs/job_123.out; cat /mnt/efs/job_123.out
        ls /mnt/efs | grep -v session | grep -c job_123
        """,
    )

    assert lines == [f"{VICTIM} {AGENT_GID} 640", "results", "1"]


@pytest.mark.parametrize("trick", TRICKS)
def test_no_job_takes_a_name_before_its_job_begins(tmp_path: Path, trick: str) -> None:
    lines = played(
        tmp_path,
        f"""
        job 23 {OTHER} "{trick}"
        : >>/mnt/efs/job_123.out; chown --no-dereference {OTHER}:{OTHER} /mnt/efs/job_123.out
        job 123 {VICTIM} "job_%j.out"
        stat --format='%u %g %a %s' /mnt/efs/job_123.out
        """,
    )

    assert lines == [f"{VICTIM} {AGENT_GID} 640 0"]


@pytest.mark.parametrize(
    ("pattern", "made"),
    [("job_%j.out", "job_23.out"), ("/mnt/efs/exp2_%j.log", "exp2_23.log"), ("%j", "23"), ("a.%j.b", "a.23.b")],
)
def test_a_name_of_the_job_alone_is_made_for_it(tmp_path: Path, pattern: str, made: str) -> None:
    lines = played(tmp_path, f"""job 23 {VICTIM} "{pattern}"; stat --format='%n %u %g %a' /mnt/efs/*""")

    assert f"/mnt/efs/{made} {VICTIM} {AGENT_GID} 640" in lines


@pytest.mark.parametrize(
    "squat",
    [": >job_123.session", "echo forged >job_123.session", "mkdir job_123.session", "ln -s /nowhere job_123.session"],
)
def test_nobody_keeps_a_session_from_writing_its_session_file(tmp_path: Path, squat: str) -> None:
    lines = played(
        tmp_path,
        f"""
        cd /mnt/efs; as {OTHER} "{squat}"
        job 123 {VICTIM} "job_%j.out"
        as {VICTIM} "echo told >told; mv --no-target-directory told job_123.session" || :
        stat --format='%u %F' job_123.session; cat job_123.session
        """,
    )

    assert lines == [f"{VICTIM} regular file", "told"]


@pytest.mark.parametrize(
    "taken", ["sysopen F, $_, O_CREAT | O_EXCL, 0666 and close F", "symlink q(/nowhere), $_", "mkdir $_"]
)
def test_nobody_takes_a_name_again_while_it_is_made(tmp_path: Path, taken: str) -> None:
    """Another user takes the names whenever they are free. What a job writes would be in a file of that user."""
    lines = played(
        tmp_path,
        f"""
        cd /mnt/efs; umask 0
        echo 'alarm 60; until (-e "/tmp/over") {{ for (qw(job_123.out job_123.session)) {{ {taken} }} }}' >/tmp/squat
        for each in 1 2 3; do as {OTHER} 'exec perl -MFcntl /tmp/squat' & done
        until [ -e job_123.session ] || [ -L job_123.session ]; do :; done
        renice --priority 5 $$ >/tmp/said
        job 123 {VICTIM} "job_%j.out"
        : >/tmp/over; wait
        stat --format='%n %u %g %a %F' job_123.out job_123.session
        """,
    )

    assert lines == [f"job_123.{kind} {VICTIM} {AGENT_GID} 640 regular empty file" for kind in ("out", "session")]


def test_only_an_empty_session_file_ends_with_its_job(tmp_path: Path) -> None:
    lines = played(
        tmp_path,
        f"""
        cd /mnt/efs; job 123 {VICTIM} "job_%j.out"; job 124 {VICTIM} "job_%j.out"
        as {VICTIM} "echo told >job_124.session"
        ls | grep session; ended 123 {VICTIM}; ended 124 {VICTIM}; ls | grep session
        """,
    )

    assert lines == ["job_123.session", "job_124.session", "job_124.session"]


def test_the_epilog_removes_no_session_file_of_others(tmp_path: Path) -> None:
    lines = played(
        tmp_path,
        f"""
        cd /mnt/efs; as {OTHER} ": >job_123.session"
        ended 123 {VICTIM}
        stat --format=%u job_123.session
        """,
    )

    assert lines == [f"{OTHER}"]
