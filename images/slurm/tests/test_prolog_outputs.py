"""Which output files the prolog makes: no job gets at those of another, whatever name it asks for.

The prolog runs as it is, in a mount namespace with folders of its own.
"""

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a mount namespace")

PROLOG = Path(__file__).parents[1] / "prolog"
VICTIM, OTHER, AGENT_GID = 5001, 6666, 65532
SITE = """
mount -t tmpfs -o mode=0755 run /run; mount -t tmpfs -o mode=1777 tmp /tmp
mkdir -p /mnt/efs; mount -t tmpfs -o mode=1777 efs /mnt/efs
job() { env -i SLURM_JOB_ID=$1 SLURM_JOB_UID=$2 SLURM_JOB_GID=$2 SLURM_JOB_USER=u$2 SLURM_JOB_CPUS_PER_NODE=1 \\
  SLURMD_NODENAME=w1 SLURM_JOB_WORK_DIR=/mnt/efs SLURM_JOB_STDOUT="$3" SLURM_JOB_STDERR="$3" sh /srv/prolog; }
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
    """The lines that a script prints. It calls `job <id> <uid> <output>` for each prolog."""
    prolog = tmp_path / "prolog"
    prolog.write_bytes(PROLOG.read_bytes())
    bound = f"mount --bind {tmp_path} /srv"
    command = ["unshare", "--mount", "--propagation=private", "sh", "-ec", f"{bound}\n{SITE}\n{script}"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()


@pytest.mark.parametrize("trick", TRICKS)
def test_no_job_takes_away_the_output_of_another(tmp_path: Path, trick: str) -> None:
    lines = played(
        tmp_path,
        f"""
        job 123 {VICTIM} "job_%j.out"
        echo results >>/mnt/efs/job_123.out
        job 23 {OTHER} "{trick}"
        stat --format='%u %g %a' /mnt/efs/job_123.out; cat /mnt/efs/job_123.out; ls /mnt/efs | grep -c job_123
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
