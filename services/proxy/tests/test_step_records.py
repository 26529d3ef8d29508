"""Steps as slurmdbd's JSON has them: what people started, each read on its own."""

from typing import Any

import pytest
from clusterra_contracts.rpc.slurm_steps import Allocation
from clusterra_proxy.slurmrestd.step_records import AccountingSteps


def tres(cpus: int, memory_mib: int, *more: dict[str, Any]) -> dict[str, Any]:
    counted = [
        {"type": "cpu", "name": "", "id": 1, "count": cpus},
        {"type": "mem", "name": "", "id": 2, "count": memory_mib},
        # Slurm writes NO_VAL64 as a signed number.
        {"type": "energy", "name": "", "id": 3, "count": -2},
        {"type": "node", "name": "", "id": 4, "count": 1},
    ]
    return {"requested": {"max": []}, "allocated": [*counted, *more]}


def step(name: str, cpus: int = 1, *more: dict[str, Any]) -> dict[str, Any]:
    times = {"start": {"set": True, "infinite": False, "number": 1_795_592_986}, "end": {"set": False, "number": 0}}
    return {
        "step": {"id": f"42.{name}", "name": "align"},
        "state": ["RUNNING"],
        "time": times,
        "tres": tres(cpus, 512, *more),
    }


def run(*steps: object) -> AccountingSteps:
    return AccountingSteps.model_validate(
        {"job_id": 42, "time": {"start": 1_795_592_986, "end": 0}, "tres": tres(2, 1024), "steps": list(steps)}
    )


def test_slurms_own_steps_are_none_and_what_is_not_set_is_no_error() -> None:
    record = run(step("batch", 2), step("extern", 2), step("0"), step("0+1"))

    steps, unreadable = record.started_steps()

    assert ([each.number for each in steps], unreadable) == (["0", "0+1"], 0)
    assert record.tres.allocation() == Allocation(cpus=2, memory_mib=1024, nodes=1)
    assert steps[0].tres.allocation() == Allocation(cpus=1, memory_mib=512, nodes=1)
    assert steps[0].time.end is None


def test_gpus_of_a_type_are_counted_once() -> None:
    gpus = ({"type": "gres", "name": name, "count": 2} for name in ("gpu", "gpu:a100"))

    steps, _ = run(step("0", 1, *gpus)).started_steps()

    assert steps[0].tres.allocation().gpus == 2


@pytest.mark.parametrize("bad", [{"time": 7}, {"step": None}, {"time": None}])
def test_a_step_that_cannot_be_read_is_counted_and_the_others_stay(bad: dict[str, object]) -> None:
    steps, unreadable = run(step("0"), {**step("1"), **bad}, step("2")).started_steps()

    assert ([each.number for each in steps], unreadable) == (["0", "2"], 1)
