"""`clusterra-admin doctor` on a real installation: all is well, and each of many faults is named alone."""

import os
from collections.abc import AsyncIterator

import pytest
from admin_command import admin, admin_process
from clusterra_admin.doctor.examination import examine
from clusterra_admin.doctor.finding import Report
from clusterra_admin.doctor.settings import DoctorSettings
from clusterra_lab.machine.process import until
from clusterra_lab.stack.stack import Stack, stack
from doctor_faults import FAULTS, Make, Problem, World

SECONDS = 30.0


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    if os.geteuid() != 0:
        pytest.skip("the lab needs root, because its Slurm runs jobs as several users")
    async with stack(tmp_path_factory.mktemp("doctor")) as running:
        yield running


@pytest.fixture
def world(lab: Stack, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> World:
    for name, value in lab.aws.environment().items():
        monkeypatch.setenv(name, value)
    nats = lab.nats.settings("lab")
    settings = DoctorSettings(
        **nats.model_dump(include={"nats_url", "nats_user", "nats_password_file"}),
        oidc_issuer=lab.oidc.issuer,
        public_url=lab.gateway_url,
    )
    return World(lab, settings, tmp_path_factory.mktemp("files"))


def problems(report: Report) -> set[Problem]:
    return {(each.check, each.about, each.status) for each in report.findings if each.status in {"warning", "failure"}}


async def is_well(world: World) -> bool:
    return not problems(await examine(world.settings, SECONDS))


async def test_a_healthy_installation_has_no_findings(world: World) -> None:
    environment = {
        **world.lab.nats.environment("lab"),
        **world.lab.aws.environment(),
        **world.lab.oidc.environment(),
        "CLUSTERRA_PUBLIC_URL": world.lab.gateway_url,
    }
    await until(lambda: is_well(world), seconds=60, what="an installation without faults")

    text = await admin_process("doctor", environment=environment)
    in_json = await admin("doctor", "--json", environment=environment)

    assert "0 failures, 0 warnings" in text.out
    assert "\x1b[" not in text.out
    report = Report.model_validate(in_json.json)
    assert not problems(report)
    assert report.summary["ok"] > 40
    assert {each.group for each in report.findings} == {
        *("nats", "record", "issuer", "services", "clusters", "edges", "clocks", "certificates")
    }


@pytest.mark.parametrize("make", FAULTS, ids=lambda make: make.__name__)
async def test_a_fault_is_named_and_nothing_else(make: Make, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await until(lambda: is_well(world), seconds=60, what="an installation without faults")

    async with make(world) as fault:
        with monkeypatch.context() as environment:
            for name, value in fault.environment.items():
                environment.setenv(name, value)
            report = await examine(fault.settings, SECONDS)

    assert problems(report) == fault.expected, report.model_dump_json(indent=1)
    (found,) = [each for each in report.findings if each.status in {"warning", "failure"}]
    assert fault.advice in found.advice, found
    assert report.exit_code == (2 if found.status == "failure" else 1)
