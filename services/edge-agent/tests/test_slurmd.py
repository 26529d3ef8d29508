"""The command line of slurmd."""

import pytest
from clusterra_contracts.node_extra import OPEN, closed
from clusterra_contracts.shapes import WorkerSpec
from clusterra_edge_agent.process.slurmd import InvalidSpec, Slurmd, node_conf
from hypothesis import given
from hypothesis import strategies as st

SPEC = WorkerSpec(cpus=4, memory_mib=7680, features=("compute", "compute-medium"), gres="gpu:h100:2", weight=8)


def test_slurmd_starts_a_dynamic_node_in_the_foreground_through_the_launcher() -> None:
    slurmd = Slurmd(("chroot", "/srv/slurm"), "/usr/sbin/slurmd", "/etc/slurm/slurm.conf", None)
    assert slurmd.argv("compute-medium-ab2cd", 17001, SPEC) == [
        *("chroot", "/srv/slurm", "/usr/sbin/slurmd", "-D", "-Z", "-N", "compute-medium-ab2cd"),
        *("-f", "/etc/slurm/slurm.conf"),
        *("--conf", "CPUs=4 RealMemory=7680 Port=17001 Weight=8 Feature=compute,compute-medium Gres=gpu:h100:2"),
        *("--extra", closed()),
    ]


def test_the_configuration_can_come_from_slurmctld() -> None:
    argv = Slurmd((), "slurmd", None, "10.0.0.5:6817").argv("w", 1, WorkerSpec(cpus=1, memory_mib=1))
    assert argv[-6:-2] == ["--conf-server", "10.0.0.5:6817", "--conf", "CPUs=1 RealMemory=1 Port=1 Weight=1"]
    assert argv[-2:] == ["--extra", OPEN]


@given(st.text(min_size=1))
def test_no_feature_or_gres_can_add_another_setting(text: str) -> None:
    for spec in (
        WorkerSpec(cpus=1, memory_mib=1, features=(text,)),
        WorkerSpec(cpus=1, memory_mib=1, gres=text),
    ):
        try:
            conf = node_conf(9, spec)
        except InvalidSpec:
            continue
        assert [part.partition("=")[0] for part in conf.split()][:4] == ["CPUs", "RealMemory", "Port", "Weight"]
        assert len(conf.split()) <= 5
        assert conf.count("=") <= 5


@pytest.mark.parametrize("text", ["a b", "a\nPort=1", "a=b", "a;b", "$(id)", "é"])
def test_values_with_special_characters_are_rejected(text: str) -> None:
    with pytest.raises(InvalidSpec, match="is not valid as a feature"):
        node_conf(9, WorkerSpec(cpus=1, memory_mib=1, features=(text,)))
