"""Simulations of a policy over HTTP: who may ask, what is asked of the scaler, and the money of the answer."""

from typing import Any

import pytest
from clusterra_runtime.nats.registry import Registry
from gateway_world import World
from test_visibility import change_visibility, until_seen

SIMULATE = "/v1/clusters/main/simulations"


async def simulated(world: World, policy: dict[str, Any], email: str = "boss@acme.example") -> tuple[int, Any]:
    browser = await world.login(email)
    async with browser.post(SIMULATE, json={"policy": policy}) as answer:
        return answer.status, await answer.json()


async def test_an_admin_sees_both_decisions_with_costs_as_decimal_strings(world: World) -> None:
    status, found = await simulated(world, {"max_workers": 1})

    assert status == 200
    present, changed = found["present"], found["changed"]
    assert (present["placed"], present["waiting"], present["usd_per_hour"]) == (4, 0, "0.300000")
    assert present["shapes"] == [
        {
            "shape": "compute-xs",
            "workers": 3,
            "new": 1,
            "drains": 0,
            "draining": [],
            "victims": [],
            "usd_per_hour": "0.300000",
        }
    ]
    assert changed["waits"] == [{"count": 3, "reason": "the limit", "job_ids": ["7", "8"]}]
    assert (changed["shapes"], changed["usd_per_hour"]) == ([], "0.000000")


async def test_only_what_is_given_is_changed(world: World) -> None:
    registry = Registry()
    await registry.start(world.client)
    binding = registry.get(world.acme.ref)
    await registry.stop()
    assert binding is not None

    for given in (
        {},
        {"usd_per_hour": None},
        {"idle_seconds": 5, "most": {"compute-xs": 0}, "name": "family", "warm": None},
    ):
        assert (await simulated(world, given))[0] == 200

    same, without_cap, changed = [each.policy for each in world.acme.scaler.simulated]
    assert same == without_cap.model_copy(update={"usd_per_hour": binding.policy.usd_per_hour}) == binding.policy
    assert changed == binding.policy.model_copy(
        update={"idle_seconds": 5.0, "most": {"compute-xs": 0}, "name": "family"}
    )


async def past(world: World, generation: Any) -> tuple[int, Any]:
    browser = await world.login("boss@acme.example")
    asked = {"policy": {"idle_seconds": 5, "usd_per_hour": None}, "generation": generation}
    async with browser.post(SIMULATE, json=asked) as answer:
        return answer.status, await answer.json()


async def test_an_earlier_decision_is_named_with_the_fields_that_are_tried(world: World) -> None:
    status, found = await past(world, 41)
    now_status, present = await simulated(world, {})

    assert (status, now_status) == (200, 200)
    assert (found["generation"], found["snapshot_generation"], present["generation"]) == (41, 9, None)
    asked, plain = world.acme.scaler.simulated
    assert (asked.generation, asked.fields) == (41, ("idle_seconds", "usd_per_hour"))
    assert (plain.generation, plain.fields) == (None, ())


@pytest.mark.parametrize("lack", ["forgotten", "older release"])
async def test_a_decision_that_cannot_be_decided_again_is_not_found(world: World, lack: str) -> None:
    world.acme.scaler.knows_past = lack != "older release"
    world.acme.scaler.forgotten = {41} if lack == "forgotten" else set()

    status, found = await past(world, 41)

    assert status == 404
    assert found["hint"] == "simulate with the current queue instead"


@pytest.mark.parametrize("generation", [0, -1, 2**53, "last"])
async def test_a_generation_that_no_decision_has_is_refused(world: World, generation: Any) -> None:
    assert (await past(world, generation))[0] == 400
    assert world.acme.scaler.simulated == []


@pytest.mark.parametrize(
    "policy",
    [
        {"max_workers": 5_001},
        {"max_workers": -1},
        {"usd_per_hour": 0},
        {"mode": "shadow"},
        {"name": "greedy"},
        {"warm": {"unknown": 1}},
        {"most": {"compute-xs": -1}},
    ],
)
async def test_a_policy_that_no_cluster_could_have_is_refused(world: World, policy: dict[str, Any]) -> None:
    status, found = await simulated(world, policy)

    assert status == 400
    assert found["detail"]
    assert world.acme.scaler.simulated == []


async def test_only_those_who_see_everybodys_jobs_may_ask(world: World) -> None:
    world.acme.add_job("7", uid=1)
    assert (await simulated(world, {}, "ada@acme.example"))[0] == 403

    await change_visibility(world, "tenant")
    await until_seen(await world.login("ada@acme.example"), "/v1/clusters/main/jobs/7", 200)

    assert (await simulated(world, {}, "ada@acme.example"))[0] == 200


async def test_a_simulation_is_unavailable_without_a_scaler(world: World) -> None:
    await world.acme.stop_serving()

    assert (await simulated(world, {}))[0] == 503
