"""Output paths with `%u`, which slurmctld and slurmd expand differently."""

import pytest
from clusterra_proxy.requests.output_path import written_path


@pytest.mark.parametrize(
    ("pattern", "told", "written"),
    [
        ("/mnt/efs/%u/%j.out", "/mnt/efs/20001/7.out", "/mnt/efs/ada/7.out"),
        ("%u-%x-%5j.log", "/mnt/efs/20001-20001-00007.log", "/mnt/efs/ada-20001-00007.log"),
        ("/mnt/efs/%x/%u.%u", "/mnt/efs/20001/20001.20001", "/mnt/efs/20001/ada.ada"),
        ("/mnt/efs/20001/%j", "/mnt/efs/20001/7", "/mnt/efs/20001/7"),
        ("/mnt/efs/%%u/%j", "/mnt/efs/%u/7", "/mnt/efs/%u/7"),
        ("/mnt/efs/%u/%j.out", "/mnt/efs/ada/7.out", "/mnt/efs/ada/7.out"),
        ("", "/mnt/efs/slurm-7.out", "/mnt/efs/slurm-7.out"),
        ("%u" * 40, "/mnt/efs/" + "20001" * 40, "/mnt/efs/" + "20001" * 40),
    ],
)
def test_only_what_stands_for_the_user_becomes_the_name(pattern: str, told: str, written: str) -> None:
    assert written_path(pattern, told, 20001, "ada") == written


def test_an_owner_without_a_known_name_changes_nothing() -> None:
    assert written_path("/mnt/efs/%u", "/mnt/efs/20001", 20001, "") == "/mnt/efs/20001"
    assert written_path("/mnt/efs/%u", "/mnt/efs/20001", None, "ada") == "/mnt/efs/20001"
