"""Each field of slurmrestd's own job description: it arrives in Slurm, or is left out with a warning, or is refused.

The rows are compared with the document that the lab's slurmrestd serves, so a field without a row fails.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from clusterra_gateway.submission.reading import ACCEPTED, CHANGEABLE, LEFT_OUT, REFUSED, UNCHANGEABLE
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

VERSION = "v0.0.45"
DESCRIPTION = f"{VERSION}_job_desc_msg"
SCRIPT = "#!/bin/sh\ntrue\n"
LATER = 4_000_000_000
JOB = {"environment": ["PATH=/usr/bin:/bin"], "begin_time": {"set": True, "number": LATER}}
Fields = dict[str, Any]


def number(value: int) -> Fields:
    """Slurm's form of a number that may be unset."""
    return {"set": True, "infinite": False, "number": value}


UNSEEN: Fields = {}
"""Nothing in a pending job's record shows the field: it is only checked that Slurm takes it and warns of nothing."""

ARRIVES: dict[str, tuple[Fields, Fields]] = {
    "account": ({"account": "lab"}, {"account": "lab"}),
    "argv": ({"argv": ["script", "one", "two"]}, UNSEEN),
    "array": ({"array": "0-2"}, {"array_task_string": "0-2"}),
    "batch_features": ({"batch_features": "general", "constraints": "general"}, {"batch_features": "general"}),
    "begin_time": ({}, {"eligible_time": number(LATER)}),
    "constraints": ({"constraints": "general"}, {"features": "general"}),
    "contiguous": ({"contiguous": True}, {"contiguous": True}),
    "cpus_per_task": ({"cpus_per_task": 2}, {"cpus_per_task": number(2)}),
    "cpus_per_tres": (
        {"cpus_per_tres": "gres/gpu:2", "tres_per_job": "gres/gpu:1"},
        {"cpus_per_tres": "gres/gpu:2"},
    ),
    "current_working_directory": (
        {"current_working_directory": "run1"},
        {"current_working_directory": "/mnt/efs/run1"},
    ),
    "deadline": ({"deadline": LATER + 3600, "time_limit": 5}, {"deadline": number(LATER + 3600)}),
    "dependency": ({"dependency": "singleton"}, {"dependency": "singleton(unfulfilled)"}),
    "distribution": ({"distribution": "cyclic", "tasks": 2}, UNSEEN),
    "environment": ({"environment": ["PATH=/bin", "A=b"]}, UNSEEN),
    "excluded_nodes": ({"excluded_nodes": []}, {"excluded_nodes": ""}),
    "flags": ({"flags": ["SPREAD_JOB", "GRES_BINDING_ENFORCED"]}, {"flags": ["SPREAD_JOB", "GRES_BINDING_ENFORCED"]}),
    "hold": ({"hold": True}, {"hold": True}),
    "kill_on_node_fail": ({"kill_on_node_fail": False}, UNSEEN),
    "kill_warning_delay": ({"kill_warning_signal": "USR1", "kill_warning_delay": number(60)}, UNSEEN),
    "kill_warning_flags": (
        {"kill_warning_signal": "USR1", "kill_warning_delay": number(60), "kill_warning_flags": ["BATCH_JOB"]},
        UNSEEN,
    ),
    "kill_warning_signal": ({"kill_warning_signal": "USR1", "kill_warning_delay": number(60)}, UNSEEN),
    "mail_type": ({"mail_type": ["FAIL", "TIME=100%"]}, {"mail_type": ["FAIL", "TIME=100%"]}),
    "mail_user": ({"mail_user": "ada"}, {"mail_user": "ada"}),
    "maximum_cpus": ({"maximum_cpus": 2, "tasks": 1}, {"max_cpus": number(2)}),
    "maximum_nodes": ({"minimum_nodes": 1, "maximum_nodes": 3}, {"max_nodes": number(3)}),
    "memory_per_cpu": ({"memory_per_cpu": number(300)}, {"memory_per_cpu": number(300)}),
    "memory_per_node": ({"memory_per_node": number(300)}, {"memory_per_node": number(300)}),
    "memory_per_tres": (
        {"memory_per_tres": "gres/gpu:300", "tres_per_job": "gres/gpu:1"},
        {"memory_per_tres": "gres/gpu:300"},
    ),
    "minimum_cpus": ({"minimum_cpus": 3}, {"cpus": number(3)}),
    "minimum_cpus_per_node": ({"minimum_cpus_per_node": 2}, {"minimum_cpus_per_node": number(2)}),
    "minimum_nodes": ({"minimum_nodes": 2, "tasks": 2}, {"node_count": number(2)}),
    "name": ({"name": "mine"}, {"name": "mine"}),
    "nice": ({"nice": 7}, {"nice": 7}),
    "nodes": ({"nodes": "2-3", "tasks": 2}, {"node_count": number(2), "max_nodes": number(3)}),
    "ntasks_per_tres": ({"ntasks_per_tres": 1, "tasks": 2}, UNSEEN),
    "oom_kill_step": ({"oom_kill_step": 1}, UNSEEN),
    "open_mode": ({"open_mode": ["APPEND"]}, UNSEEN),
    "overcommit": ({"overcommit": True, "tasks": 4}, UNSEEN),
    "partition": ({"partition": "main"}, {"partition": "main"}),
    "prefer": ({"prefer": "general"}, {"prefer": "general"}),
    "qos": ({"qos": "normal"}, {"qos": "normal"}),
    "requeue": ({"requeue": False}, {"requeue": False}),
    "required_switches": ({"required_switches": number(1)}, {"required_switches": 1}),
    "script": ({"script": SCRIPT}, UNSEEN),
    "shared": ({"shared": ["none"]}, UNSEEN),
    "sockets_per_node": ({"sockets_per_node": 1}, {"sockets_per_node": number(1)}),
    "standard_error": ({"standard_error": "/mnt/efs/e"}, {"standard_error": "/mnt/efs/e"}),
    "standard_input": ({"standard_input": "/mnt/efs/i"}, {"standard_input": "/mnt/efs/i"}),
    "standard_output": ({"standard_output": "/mnt/efs/o"}, {"standard_output": "/mnt/efs/o"}),
    "tasks": ({"tasks": 2}, {"tasks": number(2)}),
    "tasks_per_core": ({"tasks_per_core": 1}, {"tasks_per_core": number(1)}),
    "tasks_per_node": ({"tasks_per_node": 2}, {"tasks_per_node": number(2)}),
    "tasks_per_socket": ({"tasks_per_socket": 1}, {"tasks_per_socket": number(1)}),
    "threads_per_core": ({"threads_per_core": 1}, {"threads_per_core": number(1)}),
    "time_limit": ({"time_limit": number(7)}, {"time_limit": number(7)}),
    "time_minimum": ({"time_limit": 7, "time_minimum": number(3)}, {"time_minimum": number(3)}),
    "tres_per_job": ({"tres_per_job": "gres/gpu:1"}, {"tres_per_job": "gres/gpu:1"}),
    "tres_per_node": ({"tres_per_node": "gres/gpu:1"}, {"tres_per_node": "gres/gpu:1"}),
    "tres_per_socket": ({"tres_per_socket": "gres/gpu:1", "sockets_per_node": 1}, {"tres_per_socket": "gres/gpu:1"}),
    "tres_per_task": ({"tres_per_task": "gres/gpu=1", "tasks": 1}, {"tres_per_task": "gres/gpu=1"}),
    "wait_all_nodes": ({"wait_all_nodes": True}, UNSEEN),
    "wait_for_switch": (
        {"required_switches": 1, "wait_for_switch": 60},
        {"required_switches": 1, "maximum_switch_wait_time": 60},
    ),
    "wckey": ({"wckey": "w"}, {"wckey": "w"}),
}
"""Field -> what a client sends, and what Slurm's record then has."""

SLURM_REFUSES: dict[str, tuple[Fields, str]] = {
    "container": ({"container": "/mnt/efs/bundle"}, "no container runtime"),
    "licenses": ({"licenses": "matlab:1"}, "license"),
    "required_nodes": ({"required_nodes": ["elsewhere"]}, "node name"),
    "reservation": ({"reservation": "none"}, "reservation"),
    "temporary_disk_per_node": ({"temporary_disk_per_node": 10}, "node configuration is not available"),
}
"""Fields that are passed on, and of which this cluster has nothing: Slurm's own reason, or the cluster's."""

ANY: dict[str, Any] = {
    "string": "x",
    "integer": 1,
    "boolean": True,
    "array": ["x"],
    "object": {"x": 1},
}
"""A value of each type of the document."""


async def slurmrestd_document(lab: Stack) -> Fields:
    operator = lab.slurm.operator
    token = lab.slurm.token(operator.name, operator.uid, operator.gid)
    async with (
        aiohttp.ClientSession(lab.slurm.slurmrestd_url, headers={"X-SLURM-USER-TOKEN": token}) as session,
        session.get("/openapi/v3") as answer,
    ):
        document: Fields = await answer.json()
        return document


@pytest.fixture(scope="module")
async def properties(lab: Stack) -> Fields:
    """slurmrestd's fields of a job, with their schemas."""
    document = await slurmrestd_document(lab)
    found: Fields = document["components"]["schemas"][DESCRIPTION]["properties"]
    return found


@pytest.fixture
async def client(lab: Stack, ada: User) -> AsyncIterator[aiohttp.ClientSession]:
    async with (
        ada.api_token("fields") as token,
        aiohttp.ClientSession(lab.gateway_url, headers={"X-SLURM-USER-TOKEN": token}) as session,
    ):
        yield session


class Slurm:
    """The paths of slurmrestd, behind the gateway."""

    def __init__(self, client: aiohttp.ClientSession, user: User) -> None:
        self._client = client
        self._path = f"/v1/clusters/{user.cluster}/slurm/{VERSION}"
        self._slots = asyncio.Semaphore(4)

    async def call(self, method: str, path: str, body: Fields | None = None) -> tuple[int, Fields]:
        async with self._slots, self._client.request(method, f"{self._path}/{path}", json=body) as answer:
            return answer.status, await answer.json()

    async def submit(self, fields: Fields) -> tuple[int, Fields]:
        """Submits a job, again for as long as the cluster's placeholders are not there yet."""
        body = ({} if "script" in fields else {"script": SCRIPT}) | {"job": JOB | fields}

        async def answered() -> tuple[int, Fields] | None:
            status, answer = await self.call("POST", "job/submit", body)
            return None if status == 503 else (status, answer)

        return await until(answered, seconds=120, what=f"an answer to {fields}", every=0.5)

    async def record(self, job_id: int) -> Fields:
        _, read = await self.call("GET", f"job/{job_id}")
        found: Fields = read["jobs"][0]
        return found


def is_expected(warning: str) -> bool:
    """Whether a warning is about the job's begin, or about the lab, which has no SMTP server."""
    return "held state" in warning or "sends no mails" in warning


def missing(record: Fields, wanted: Fields) -> Fields:
    """What of the wanted is not in a record. Of a list, all items must be there."""
    return {
        name: record.get(name)
        for name, value in wanted.items()
        if (not set(value) <= set(record.get(name, ())) if isinstance(value, list) else record.get(name) != value)
    }


def value_of(schema: Fields) -> Any:
    reference = schema.get("$ref", "")
    if reference.endswith("no_val_struct"):
        return number(1)
    return ANY["array" if reference.endswith(("string_array", "csv_string")) else schema.get("type", "object")]


def test_every_field_of_slurmrestd_has_a_row(properties: Fields) -> None:
    passed_on = ARRIVES.keys() | SLURM_REFUSES.keys()

    assert len(properties) > 100
    assert properties.keys() - passed_on - LEFT_OUT.keys() - REFUSED.keys() == set()
    assert passed_on - {"script"} == ACCEPTED
    assert not ACCEPTED & (LEFT_OUT.keys() | REFUSED.keys())
    assert not LEFT_OUT.keys() & REFUSED.keys()
    assert REFUSED.keys() - properties.keys() == {"power_flags"}, "v0.0.44 and earlier have one field more"
    changed = CHANGEABLE | {"hold"} | LEFT_OUT.keys()
    assert properties.keys() - changed - UNCHANGEABLE.keys() - {"job_id"} == set()
    assert not changed & UNCHANGEABLE.keys()


async def test_each_accepted_field_arrives_in_slurm(lab: Stack, client: aiohttp.ClientSession, ada: User) -> None:
    slurm = Slurm(client, ada)
    made = await lab.slurm.run("sacctmgr", "--immediate", "add", "account", "lab")
    assert made.returncode == 0, made

    async def wrong(name: str) -> tuple[str, Any]:
        fields, wanted = ARRIVES[name]
        status, submitted = await slurm.submit(fields)
        warnings = [each["description"] for each in submitted["warnings"] if not is_expected(each["description"])]
        if status != 200 or warnings:
            return name, (submitted["errors"], warnings)
        record = await slurm.record(submitted["job_id"])
        await slurm.call("DELETE", f"job/{submitted['job_id']}")
        return name, missing(record, wanted)

    async def account_arrives() -> bool:
        return not (await wrong("account"))[1]

    # While slurmdbd does not answer in time, Slurm books a job on the default account: docs/concepts/associations.md.
    await until(account_arrives, seconds=90, every=1.0, what="the association with the new account")
    told = dict(await asyncio.gather(*map(wrong, ARRIVES)))

    assert {name: each for name, each in told.items() if each} == {}


@pytest.mark.parametrize("name", SLURM_REFUSES)
async def test_a_field_that_the_cluster_cannot_meet_says_why(
    client: aiohttp.ClientSession, ada: User, name: str
) -> None:
    fields, text = SLURM_REFUSES[name]

    status, refused = await Slurm(client, ada).submit(fields)

    assert status == 422, refused
    assert text in refused["errors"][0]["description"].lower()


async def test_a_field_that_does_not_count_is_left_out_with_its_reason(
    client: aiohttp.ClientSession, ada: User, properties: Fields
) -> None:
    slurm = Slurm(client, ada)
    fields = {name: value_of(properties[name]) for name in LEFT_OUT}

    status, submitted = await slurm.submit(fields)

    assert status == 200, submitted
    told = {each["description"].partition(" is left out: ")[0]: each["description"] for each in submitted["warnings"]}
    assert {name: told.get(name) for name in LEFT_OUT} == {
        name: f"{name} is left out: {reason}" for name, reason in LEFT_OUT.items()
    }
    record = await slurm.record(submitted["job_id"])
    assert (record["user_id"], record["tres_bind"]) == (ada.profile.uid, "")
    await slurm.call("DELETE", f"job/{submitted['job_id']}")


@pytest.mark.parametrize("name", sorted(REFUSED))
async def test_a_field_that_cannot_be_allowed_is_refused_with_its_reason(
    client: aiohttp.ClientSession, ada: User, properties: Fields, name: str
) -> None:
    status, refused = await Slurm(client, ada).submit({name: value_of(properties.get(name, {"type": "array"}))})

    assert status == 400, refused
    (error,) = refused["errors"]
    assert (error["source"], error["description"]) == (f"#/job/{name}", f"{name} is not accepted: {REFUSED[name]}")


OTHER = "OTHER"
"""Stands for the number of another job that waits."""

CHANGES: dict[str, tuple[Any, Fields]] = {
    "begin_time": (number(LATER + 60), {"eligible_time": number(LATER + 60)}),
    "constraints": ("general", {"features": "general"}),
    "dependency": (f"afterok:{OTHER}", {"dependency": f"afterok:{OTHER}(unfulfilled)"}),
    "hold": (True, {"hold": True}),
    "memory_per_cpu": (number(300), {"memory_per_cpu": number(300)}),
    "memory_per_node": (number(700), {"memory_per_node": number(700)}),
    "name": ("renamed", {"name": "renamed"}),
    "nice": (9, {"nice": 9}),
    "partition": ("main", {"partition": "main"}),
    "prefer": ("general", {"prefer": "general"}),
    "qos": ("urgent", {"qos": "urgent"}),
    "requeue": (False, {"requeue": False}),
    "standard_error": ("/mnt/efs/e2", {"standard_error": "/mnt/efs/e2"}),
    "standard_input": ("/mnt/efs/i2", {"standard_input": "/mnt/efs/i2"}),
    "standard_output": ("/mnt/efs/o2", {"standard_output": "/mnt/efs/o2"}),
    "tasks": (3, {"tasks": number(3), "cpus": number(3)}),
    "time_limit": (number(9), {"time_limit": number(9)}),
    "time_minimum": (number(2), {"time_minimum": number(2)}),
    "wckey": ("w2", {"wckey": "w2"}),
}
"""Field -> its new value, and what Slurm's record then has."""

CHANGES_REFUSED = {
    "excluded_nodes": (["elsewhere"], "node name"),
    "licenses": ("matlab:1", "license"),
    "memory_per_cpu": (number(900_000), "the largest worker"),
    "memory_per_node": (number(900_000), "the largest worker"),
    "tasks": (900_000, "on each node"),
}
"""Fields that can be changed, and a value that this cluster does not take."""


@pytest.fixture
async def waiting(client: aiohttp.ClientSession, ada: User) -> AsyncIterator[tuple[Slurm, int]]:
    """A job that waits for its begin."""
    slurm = Slurm(client, ada)
    status, submitted = await slurm.submit({"time_limit": number(7)})
    assert status == 200, submitted
    yield slurm, submitted["job_id"]
    await slurm.call("DELETE", f"job/{submitted['job_id']}")


async def test_each_changeable_field_is_changed_in_slurm(lab: Stack, waiting: tuple[Slurm, int]) -> None:
    slurm, job_id = waiting
    made = await lab.slurm.run("sacctmgr", "--immediate", "add", "qos", "urgent")
    assert made.returncode == 0, made

    assert CHANGES.keys() | CHANGES_REFUSED.keys() == CHANGEABLE | {"hold"}
    _, other = await slurm.submit({"hold": True})
    changes = json.loads(json.dumps(CHANGES).replace(OTHER, str(other["job_id"])))
    for name, (value, wanted) in changes.items():
        status, answer = await slurm.call("POST", f"job/{job_id}", {name: value})

        assert (name, status, answer["errors"]) == (name, 200, [])
        assert (name, missing(await slurm.record(job_id), wanted)) == (name, {})
    await slurm.call("DELETE", f"job/{other['job_id']}")


@pytest.mark.parametrize("name", CHANGES_REFUSED)
async def test_a_change_that_slurm_does_not_make_is_an_error_with_its_reason(
    waiting: tuple[Slurm, int], name: str
) -> None:
    slurm, job_id = waiting
    value, text = CHANGES_REFUSED[name]

    status, answer = await slurm.call("POST", f"job/{job_id}", {name: value})

    assert status in (404, 422), answer
    assert text in answer["errors"][0]["description"].lower()


async def test_an_unknown_qos_is_refused_although_slurmrestd_answers_with_success(
    ada: User, waiting: tuple[Slurm, int]
) -> None:
    slurm, job_id = waiting

    async with ada.session.patch(f"/v1/clusters/{ada.cluster}/jobs/{job_id}", json={"qos": "nowhere"}) as answer:
        told = await answer.json()

    assert (answer.status, told["detail"]) == (422, f"Slurm left the QOS of job {job_id} at normal")
    assert (await slurm.record(job_id))["qos"] == "normal"


async def test_a_field_that_cannot_be_changed_is_refused_with_its_reason(
    ada: User, waiting: tuple[Slurm, int], properties: Fields
) -> None:
    slurm, job_id = waiting
    for name in sorted(UNCHANGEABLE.keys() - {"job_id"}):
        value = value_of(properties.get(name, {"type": "array"}))

        status, refused = await slurm.call("POST", f"job/{job_id}", {name: value})
        async with ada.session.patch(f"/v1/clusters/{ada.cluster}/jobs/{job_id}", json={name: value}) as answer:
            told = await answer.json()

        assert (name, status, answer.status) == (name, 400, 400)
        assert refused["errors"][0]["description"] == f"{name} is not accepted: {UNCHANGEABLE[name]}"
        assert UNCHANGEABLE[name] in told["hint"]
