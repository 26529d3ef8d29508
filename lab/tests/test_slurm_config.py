"""The content of Slurm's configuration files."""

import pytest
from clusterra_lab.slurm.config import (
    ClusterOptions,
    InvalidConfig,
    PowerSaving,
    SlurmConfig,
    slurm_conf,
    slurmdbd_conf,
)
from hypothesis import given
from hypothesis import strategies as st

words = st.from_regex(r"[a-z][a-z0-9-]{0,12}", fullmatch=True)


def config(*, power_saving: PowerSaving | None = None, max_nodes: int | None = None) -> SlurmConfig:
    return SlurmConfig(ClusterOptions("acme", power_saving, max_nodes=max_nodes), 17000, 17001)


def nodes(text: str) -> list[dict[str, str]]:
    lines = [line for line in text.splitlines() if line.startswith("NodeName=")]
    return [dict(pair.split("=", 1) for pair in line.split()) for line in lines]


def test_slurm_rejects_impossible_jobs_at_submit() -> None:
    text = slurm_conf(config(max_nodes=100))
    assert "\nEnforcePartLimits=ANY\n" in text
    assert "PartitionName=main Default=YES Nodes=ALL MaxNodes=100 DefMemPerCPU=1024 State=UP\n" in text
    assert nodes(text) == []


@given(words, st.sampled_from(" \n\t#\\\"'="), words)
def test_a_name_cannot_inject_settings(head: str, between: str, tail: str) -> None:
    name = head + between + tail
    with pytest.raises(InvalidConfig):
        ClusterOptions(name)
    with pytest.raises(InvalidConfig):
        config(power_saving=PowerSaving(features=(name,)))


def test_identities_come_only_from_tokens_and_root_runs_no_jobs() -> None:
    for text in (slurm_conf(config()), slurmdbd_conf(config())):
        assert "AuthAltTypes=auth/jwt\n" in text
        assert "use_jwt_client_ids_only" in text
    assert "\nDisableRootJobs=YES\n" in slurm_conf(config())
    assert ",disable_token_creation\n" in slurm_conf(config())


def test_slurms_own_commands_show_users_their_own_jobs_alone() -> None:
    assert "\nPrivateData=jobs,usage,users,accounts\n" in slurm_conf(config())
    assert "\nPrivateData=accounts,events,jobs,usage,users\n" in slurmdbd_conf(config())


def test_only_workers_that_are_processes_have_fake_gpu_devices() -> None:
    lines = config().files()["gres.conf"].splitlines()
    assert lines[0] == "AutoDetect=off"
    assert "Name=gpu Type=l4 File=/etc/slurm/gpu[0-7]" in lines
    pods = SlurmConfig(ClusterOptions("acme", one_host=False), 17000, 17001)
    assert pods.files()["gres.conf"] == "AutoDetect=nvidia\n"


def test_power_saving_has_cloud_nodes_and_no_accounting() -> None:
    saving = config(power_saving=PowerSaving(nodes=3, cpus=2, memory_mib=4096, features=("a", "b")))
    files = saving.files()

    assert "slurmdbd.conf" not in files
    assert "AccountingStorage" not in files["slurm.conf"]
    assert nodes(files["slurm.conf"]) == [
        {"NodeName": "cloud-[1-3]", "CPUs": "2", "RealMemory": "4096", "Feature": "a,b", "State": "CLOUD"}
    ]
    assert files["resume"].startswith("#!/bin/sh\n")
    # The benchmark compares with Slurm at its fastest, which must not wait for a timer.
    assert "\nSlurmctldParameters=power_save_interval=0\n" in files["slurm.conf"]


def test_without_power_saving_there_is_no_resume_program() -> None:
    files = config().files()
    assert "ResumeProgram" not in files["slurm.conf"]
    assert "AccountingStorageType=accounting_storage/slurmdbd\n" in files["slurm.conf"]
    assert "DbdPort=17001\n" in files["slurmdbd.conf"]


def test_without_a_compiler_slurmctld_starts_without_the_plugin() -> None:
    files = SlurmConfig(ClusterOptions("acme"), 17000, 17001, plugin_folders="/a:/b", plugins=False).files()

    assert "PluginDir" not in files["slurm.conf"]
    assert "PrioritySiteFactorPlugin" not in files["slurm.conf"]
    assert "\nJobSubmitPlugins=lua\n" in files["slurm.conf"]


def test_only_a_cluster_with_containers_has_an_oci_conf() -> None:
    files = SlurmConfig(ClusterOptions("acme", containers=True), 17000, 17001).files()

    assert "oci.conf" not in config().files()
    assert files["oci.conf"].count("/usr/lib/clusterra/container-runtime ") == 4
