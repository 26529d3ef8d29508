"""Jobs over HTTP: the documented shape, hints for common mistakes, and one job per Idempotency-Key."""

import asyncio
import io
import json
import uuid
from typing import Any

import aiohttp
import pytest
from clusterra_contracts.events import JOB_ENDS, JobActionFact, JobFact, event_of
from clusterra_contracts.identity import now
from clusterra_contracts.job_states import DIRECTORY_NOT_ENTERED, FILES_NOT_OPENED, OUT_OF_MEMORY
from clusterra_contracts.rpc.reply import ErrorKind
from clusterra_gateway.bus import requests
from clusterra_gateway.http.requests.json_body import MAX_BODY_BYTES
from clusterra_gateway.submission.reading import MAX_SCRIPT_BYTES, MAX_SUBMISSION_BYTES
from clusterra_lab.machine.process import until
from clusterra_runtime.backoff import Backoff
from gateway_world import World

SUBMIT = "/v1/clusters/main/jobs/submit"
JOB = {"name": "hello", "environment": ["PATH=/usr/bin:/bin"], "nodes": "1"}
SUBMISSION: dict[str, Any] = {"script": "#!/bin/bash\nhostname\n", "job": JOB}


async def submit(
    browser: aiohttp.ClientSession, body: Any = SUBMISSION, key: str | None = None
) -> tuple[int, dict[str, Any]]:
    headers = {} if key is None else {"Idempotency-Key": key}
    async with browser.post(SUBMIT, json=body, headers=headers) as answer:
        return answer.status, await answer.json()


async def test_a_job_runs_as_its_submitter(world: World) -> None:
    browser = await world.login("ada@acme.example")

    async with browser.post(SUBMIT, json=SUBMISSION) as answer:
        assert answer.status == 201
        assert answer.headers["Location"] == "/v1/clusters/main/jobs/1"
        body = await answer.json()

    assert body["job_id"] == "1"
    assert body["repeated"] is False

    (sent,) = world.acme.submits
    assert (sent.user.name, sent.user.uid, sent.user.gid) == ("ada", 20001, 20001)
    assert sent.email == "ada@acme.example"
    assert sent.script == SUBMISSION["script"]
    assert sent.job.nodes == "1"
    assert sent.idempotency_key is None

    async with browser.get("/v1/clusters/main/jobs/1") as answer:
        assert (await answer.json())["state"] == "PENDING"


@pytest.mark.parametrize(
    ("body", "named", "hint"),
    [
        ({"job": {**JOB, "script": "#!/bin/sh"}}, "job.script", "top level"),
        ({"script": "x", "job": {**JOB, "nodes": 1}}, "job.nodes", 'such as "1" or "2-4"'),
        ({"script": "x", "job": {"name": "x"}}, "job.environment", "PATH=/usr/bin:/bin"),
        ({"script": "x", "job": {**JOB, "environment": []}}, "job.environment", "PATH=/usr/bin:/bin"),
        ({"script": "x", "job": {**JOB, "user_id": 0}}, "job.user_id", "person who submits"),
        ({"script": "x", "job": {**JOB, "group_id": "root"}}, "job.group_id", "person who submits"),
        ({"script": "x", "job": {**JOB, "comment": "mine"}}, "job.comment", "note"),
        ({"script": "x", "job": {**JOB, "nmae": "x"}}, "job.nmae", ""),
        ({"script": "x", "job": JOB, "jobs": []}, "jobs", ""),
        ({"script": "", "job": JOB}, "script", ""),
        ({"script": "x"}, "job", ""),
        ([], "body", ""),
        ("x", "body", ""),
    ],
)
async def test_the_error_names_the_wrong_field_and_has_a_hint(world: World, body: Any, named: str, hint: str) -> None:
    browser = await world.login("ada@acme.example")

    status, problem = await submit(browser, body, key=str(uuid.uuid4()))

    assert status == 400, problem
    assert f"{named}:" in problem["detail"]
    assert hint in problem.get("hint", "")
    assert world.acme.submits == []


@pytest.mark.parametrize("raw", [b"", b"{", b'{"script": "\\ud800", "job": {"environment": ["A=1"]}}', b"\xff"])
async def test_a_body_that_is_not_json_is_rejected(world: World, raw: bytes) -> None:
    browser = await world.login("ada@acme.example")

    async with browser.post(SUBMIT, data=raw, headers={"Content-Type": "application/json"}) as answer:
        assert answer.status == 400
    async with browser.post(SUBMIT, data=b"{}", headers={"Content-Type": "text/plain"}) as answer:
        assert answer.status == 415
        assert "application/json" in (await answer.json())["hint"]


async def submit_streamed(browser: aiohttp.ClientSession, body: Any) -> tuple[int, dict[str, Any]]:
    content = io.BytesIO(json.dumps(body).encode())
    async with browser.post(SUBMIT, data=content, headers={"Content-Type": "application/json"}) as answer:
        return answer.status, await answer.json()


LARGEST = "é" * (MAX_SCRIPT_BYTES // 2)
"""json.dumps writes six bytes for each character."""


async def test_the_largest_script_is_submitted(world: World) -> None:
    browser = await world.login("ada@acme.example")

    status, _ = await submit_streamed(browser, SUBMISSION | {"script": LARGEST})

    assert status == 201


async def test_a_script_has_a_maximum_size(world: World) -> None:
    browser = await world.login("ada@acme.example")

    status, problem = await submit_streamed(browser, SUBMISSION | {"script": LARGEST + "x"})

    assert status == 413
    assert "512 KiB" in problem["detail"]
    assert world.acme.submits == []


async def test_a_submission_has_a_maximum_size(world: World) -> None:
    browser = await world.login("ada@acme.example")
    variables = [f"V{number}={'x' * 1000}" for number in range(MAX_SUBMISSION_BYTES // 1000)]

    status, _ = await submit_streamed(browser, {"script": "x", "job": {"environment": variables}})

    assert status == 413
    assert world.acme.submits == []


async def test_the_body_of_a_submission_has_a_maximum_size(world: World) -> None:
    browser = await world.login("ada@acme.example")

    status, problem = await submit_streamed(browser, SUBMISSION | {"script": "x" * MAX_BODY_BYTES})

    assert (status, problem["type"]) == (413, "/v1/problems/too-large")
    assert world.acme.submits == []


async def test_the_same_key_and_body_make_one_job(world: World) -> None:
    browser = await world.login("ada@acme.example")
    key = str(uuid.uuid4())

    first = await submit(browser, key=key)
    again = await submit(browser, {"job": dict(reversed(JOB.items())), "script": SUBMISSION["script"]}, key=key)

    assert first[0] == again[0] == 201
    assert again[1] == first[1] | {"repeated": True}
    assert [sent.idempotency_key for sent in world.acme.submits] == [key]


async def test_the_same_key_with_another_body_is_rejected(world: World) -> None:
    browser = await world.login("ada@acme.example")
    key = str(uuid.uuid4())
    await submit(browser, key=key)

    status, problem = await submit(browser, SUBMISSION | {"script": "another"}, key=key)

    assert (status, problem["type"]) == (422, "/v1/problems/key-reused")
    assert len(world.acme.submits) == 1


async def test_two_people_may_use_the_same_key(world: World) -> None:
    key = str(uuid.uuid4())
    ada = await submit(await world.login("ada@acme.example"), key=key)
    bob = await submit(await world.login("bob@acme.example"), SUBMISSION | {"script": "another"}, key=key)

    assert (ada[0], bob[0]) == (201, 201)
    assert ada[1]["job_id"] != bob[1]["job_id"]


async def test_a_submit_with_a_lost_answer_can_be_sent_again_without_a_second_job(world: World) -> None:
    browser = await world.login("ada@acme.example")
    key = str(uuid.uuid4())
    world.acme.lose_replies = 1

    async with browser.post(SUBMIT, json=SUBMISSION, headers={"Idempotency-Key": key}) as answer:
        problem = await answer.json()
    assert (answer.status, problem["type"]) == (504, "/v1/problems/outcome-unknown")
    assert "nobody knows yet" in problem["detail"]
    assert "ask again with the same key" in problem["hint"]
    assert int(answer.headers["Retry-After"]) >= 1

    status, again = await submit(browser, key=key)
    assert (status, again["job_id"], again["repeated"]) == (201, "1", True)
    assert await submit(browser, key=key) == (status, again)

    assert len(world.acme.jobs) == 1
    assert len(world.acme.submits) == 2  # the third request got the stored answer


async def test_without_a_key_an_unknown_outcome_says_where_to_look(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.lose_replies = 1

    async with browser.post(SUBMIT, json=SUBMISSION) as answer:
        problem = await answer.json()

    assert (answer.status, problem["type"]) == (504, "/v1/problems/outcome-unknown")
    assert "list of your jobs" in problem["hint"]
    assert "Retry-After" not in answer.headers  # a client that obeyed it would make a second job


@pytest.mark.usefixtures("short_handover")
async def test_a_submit_that_reached_nobody_leaves_its_key_free(world: World) -> None:
    browser = await world.login("ada@acme.example")
    key = str(uuid.uuid4())
    await world.acme.stop_serving()

    status, problem = await submit(browser, key=key)
    assert (status, problem["type"]) == (503, "/v1/problems/unavailable")

    await world.acme.serve(world.client)
    assert (await submit(browser, SUBMISSION | {"script": "another"}, key=key))[0] == 201


async def test_a_repeat_in_flight_is_told_to_ask_again(world: World) -> None:
    browser = await world.login("ada@acme.example")
    key = str(uuid.uuid4())
    world.acme.hold = asyncio.Event()
    first = asyncio.create_task(submit(browser, key=key))
    await until(lambda: world.acme.submits, seconds=30, what="the first submit")

    async with browser.post(SUBMIT, json=SUBMISSION, headers={"Idempotency-Key": key}) as answer:
        problem = await answer.json()
    assert (answer.status, problem["type"]) == (409, "/v1/problems/in-flight")
    assert answer.headers["Retry-After"] == "1"
    status, problem = await submit(browser, SUBMISSION | {"script": "another"}, key=key)
    assert (status, problem["type"]) == (422, "/v1/problems/key-reused")

    world.acme.hold.set()
    status, submitted = await first
    assert status == 201
    assert await submit(browser, key=key) == (201, submitted | {"repeated": True})
    assert len(world.acme.submits) == 1


async def test_a_rejected_job_releases_its_key(world: World) -> None:
    browser = await world.login("ada@acme.example")
    key = str(uuid.uuid4())
    world.acme.submit_error = "rejected"

    status, problem = await submit(browser, key=key)
    assert (status, problem["type"]) == (422, "/v1/problems/rejected")

    world.acme.submit_error = None
    assert (await submit(browser, SUBMISSION | {"script": "mended"}, key=key))[0] == 201


async def test_parallel_submits_with_one_key_make_one_job(world: World) -> None:
    browser = await world.login("ada@acme.example")
    key = str(uuid.uuid4())

    answers = await asyncio.gather(*(submit(browser, key=key) for _ in range(8)))

    accepted = [answer for status, answer in answers if status == 201]
    assert {answer["job_id"] for answer in accepted} == {"1"}
    assert {status for status, _ in answers} <= {201, 409}
    assert sum(not answer["repeated"] for answer in accepted) == 1
    assert len(world.acme.jobs) == len(world.acme.submits) == 1


@pytest.mark.parametrize("key", ["short", "x" * 65, "with space!", "ünicode-key"])
async def test_a_malformed_key_is_rejected(world: World, key: str) -> None:
    browser = await world.login("ada@acme.example")

    status, problem = await submit(browser, key=key)
    assert status == 400
    assert "UUID" in problem["hint"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("invalid", 400), ("rejected", 422), ("unauthenticated", 502), ("forbidden", 403), ("conflict", 409)],
)
async def test_an_error_of_slurm_becomes_a_problem(world: World, kind: Any, expected: int) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.submit_error = kind

    async with browser.post(SUBMIT, json=SUBMISSION, headers={"X-Request-Id": "my-id.1"}) as answer:
        assert answer.status == expected
        assert answer.content_type == "application/problem+json"
        assert answer.headers["X-Request-Id"] == "my-id.1"
        problem = await answer.json()

    assert problem["status"] == expected
    assert problem["request_id"] == "my-id.1"
    assert problem["detail"] == "rejected as the test wants it"


@pytest.mark.usefixtures("short_handover")
async def test_a_cluster_without_a_proxy_is_unavailable(world: World) -> None:
    browser = await world.login("ada@acme.example")
    await world.acme.stop_serving()

    async with browser.get("/v1/clusters/main/jobs", headers={"X-Request-Id": "not plain!"}) as answer:
        assert answer.status == 503
        assert answer.headers["Retry-After"]
        assert answer.headers["X-Request-Id"] == (await answer.json())["request_id"] != "not plain!"


async def test_a_submit_waits_for_a_proxy_that_is_about_to_serve(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = await world.login("ada@acme.example")
    await world.acme.stop_serving()
    sent_in_vain = asyncio.Event()

    class Watched(Backoff):
        def next_seconds(self) -> float:
            sent_in_vain.set()
            return super().next_seconds()

    monkeypatch.setattr(requests, "Backoff", Watched)

    submitting = asyncio.create_task(post_job(browser))
    async with asyncio.timeout(90):
        await sent_in_vain.wait()
    await world.acme.serve(world.client)

    assert await submitting == 201
    assert len(world.acme.submits) == 1


async def post_job(browser: aiohttp.ClientSession) -> int:
    async with browser.post("/v1/clusters/main/jobs/submit", json=SUBMISSION) as answer:
        return answer.status


async def test_filters_reach_slurm(world: World) -> None:
    browser = await world.login("boss@acme.example")
    query = "state=running,PENDING&user=ada&name=hello&submitted_after=2026-01-01T00:00:00%2B01:00&limit=7&cursor=abc"
    query += "&sort=-name&partition=cloud&account=lab&qos=high"

    async with browser.get(f"/v1/clusters/main/jobs?{query}") as answer:
        assert answer.status == 200
        assert await answer.json() == {"jobs": [], "total": 0, "cursor": None, "costs": None}

    (asked,) = world.acme.lists
    assert asked.states == ("RUNNING", "PENDING")
    assert (asked.user, asked.name, asked.limit, asked.cursor) == ("ada", "hello", 7, "abc")
    assert (asked.sort, asked.partition, asked.account, asked.qos) == ("-name", "cloud", "lab", "high")
    assert asked.submitted_after is not None
    assert asked.submitted_after.isoformat() == "2025-12-31T23:00:00+00:00"
    assert asked.viewer.admin


@pytest.mark.parametrize(
    "query",
    [
        "state=EXPLODED",
        "state=,,",
        "limit=0",
        "limit=x",
        "submitted_after=noon",
        "sate=RUNNING",
        "sort=cost",
        "user=a&user=b",
    ],
)
async def test_invalid_filters_are_rejected(world: World, query: str) -> None:
    browser = await world.login("ada@acme.example")

    async with browser.get(f"/v1/clusters/main/jobs?{query}") as answer:
        assert answer.status == 400
        assert query.partition("=")[0] in (await answer.json())["detail"]

    assert world.acme.lists == []


@pytest.mark.parametrize("job_id", ["0", "x", "..", "1_", "1_2_3", "%2e%2e%2f1", "1%2F2", "٣", "1 ", "99999999999"])
async def test_malformed_job_ids_are_not_found(world: World, job_id: str) -> None:
    browser = await world.login("ada@acme.example")

    for path in ("", "/why", "/output", "/output/stream"):
        async with browser.get(f"/v1/clusters/main/jobs/{job_id}{path}") as answer:
            assert answer.status == 404
            assert answer.content_type == "application/problem+json"

    assert world.acme.edge.reads == []
    assert world.acme.scaler.explained == []


@pytest.mark.parametrize("job_id", ["42", "42_7"])
async def test_why_returns_the_scalers_explanation(world: World, job_id: str) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job(job_id, state="PENDING")

    async with browser.get(f"/v1/clusters/main/jobs/{job_id}/why") as answer:
        assert answer.status == 200
        explanation = await answer.json()

    assert explanation["job_id"] == job_id
    assert explanation["text"] == "It waits for a worker of the shape compute-xs, which is ordered and not started yet."
    assert explanation["places"] == [{"kind": "ordered", "worker": None, "shape": "compute-xs"}]
    chosen, too_small = explanation["alternatives"]
    assert (chosen["shape"], chosen["verdict"], chosen["usd_per_hour"]) == ("compute-xs", "chosen", "0.0725")
    assert (chosen["job_usd_per_hour"], chosen["expected_usd"]) == ("0.036250", "0.300000")
    assert (too_small["verdict"], too_small["lacks"], too_small["job_usd_per_hour"]) == ("too_small", ["cpus"], None)

    (asked,) = world.acme.scaler.explained
    assert (asked.viewer.user.name, asked.viewer.user.uid, asked.viewer.admin) == ("ada", 20001, False)


async def test_only_the_owner_and_admins_get_the_explanation(world: World) -> None:
    world.acme.add_job("1", user="ada", uid=20001)
    statuses = {}

    for email in ("ada@acme.example", "bob@acme.example", "boss@acme.example", "mallory@rival.example"):
        browser = await world.login(email)
        async with browser.get("/v1/clusters/main/jobs/1/why") as answer:
            statuses[email.partition("@")[0]] = answer.status

    assert statuses == {"ada": 200, "bob": 404, "boss": 200, "mallory": 404}
    assert [asked.viewer.admin for asked in world.acme.scaler.explained] == [False, False, True]

    async with (await world.browser()).get("/v1/clusters/main/jobs/1/why") as answer:
        assert answer.status == 401


@pytest.mark.usefixtures("short_handover")
async def test_why_is_unavailable_without_a_scaler(world: World) -> None:
    browser = await world.login("ada@acme.example")
    await world.acme.stop_serving()

    async with browser.get("/v1/clusters/main/jobs/1/why") as answer:
        assert (answer.status, answer.content_type) == (503, "application/problem+json")
        assert answer.headers["Retry-After"]
        assert (await answer.json())["hint"] == "try again in a moment"


async def test_why_of_a_job_that_the_scaler_does_not_know_yet(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.scaler.unexplained = "not_found"
    world.acme.add_job("1", state="PENDING")
    world.acme.add_job("2", state="RUNNING")

    found = []
    for job_id in ("1", "2"):
        async with browser.get(f"/v1/clusters/main/jobs/{job_id}/why") as answer:
            assert answer.status == 200
            found.append(await answer.json())
    async with browser.get("/v1/clusters/main/jobs/3/why") as answer:
        assert answer.status == 404

    assert [(each["state"], each["generation"]) for each in found] == [("pending", 0), ("running", 0)]
    assert found[0]["text"] == "It has just been submitted: the scaler has not planned with it yet."


@pytest.mark.parametrize("unexplained", ["not_found", "unavailable"])
async def test_why_tells_how_a_job_has_ended(world: World, unexplained: ErrorKind) -> None:
    world.acme.scaler.unexplained = unexplained
    job = world.acme.add_job("1", state="FAILED")
    world.acme.jobs["1"] = job.model_copy(
        update={"reason": "NonZeroExitCode", "exit_code": 3, "started_at": now(), "ended_at": now()}
    )
    browser = await world.login("ada@acme.example")

    async with browser.get("/v1/clusters/main/jobs/1/why") as answer:
        assert answer.status == 200
        found = await answer.json()
    async with (await world.login("bob@acme.example")).get("/v1/clusters/main/jobs/1/why") as answer:
        assert answer.status in (404, 503)

    assert (found["state"], found["final_state"], found["exit_code"]) == ("ended", "FAILED", 3)
    assert found["alternatives"] == []
    assert found["text"] == "It has ended as FAILED with the exit code 3: NonZeroExitCode."
    assert found["ended_at"]


@pytest.mark.parametrize(
    ("state", "told", "text"),
    [
        (
            "FAILED",
            {"reason": FILES_NOT_OPENED, "standard_output": "/mnt/efs/x.out"},
            "the output file could not be opened (/mnt/efs/x.out), or that of its standard input",
        ),
        ("FAILED", {"reason": DIRECTORY_NOT_ENTERED}, "its working directory does not exist on its worker"),
        (
            "OUT_OF_MEMORY",
            {"reason": OUT_OF_MEMORY, "memory_per_node_mib": 100, "peak_memory_mib": 133},
            "It ran out of memory. It asked for 100 MiB for each node, and one task had 133 MiB: ask for more.",
        ),
        ("NODE_FAIL", {"reason": "NodeDown"}, "It has ended as NODE_FAIL: NodeDown."),
        ("CANCELLED", {"signal": 15, "cancelled_by": "bob"}, "It has ended as CANCELLED because bob cancelled it."),
        ("SUSPENDED", {"nodes": ("w1",), "ended_at": None}, "It is suspended on w1: its processes are stopped."),
    ],
)
async def test_why_says_in_plain_words_what_became_of_a_job(
    world: World, state: str, told: dict[str, Any], text: str
) -> None:
    world.acme.scaler.unexplained = "not_found"
    job = world.acme.add_job("1", state=state)
    world.acme.jobs["1"] = job.model_copy(update={"started_at": now(), "ended_at": now(), **told})

    async with (await world.login("ada@acme.example")).get("/v1/clusters/main/jobs/1/why") as answer:
        found = await answer.json()

    assert text in found["text"]
    assert "signal" not in found["text"]


async def test_why_names_the_administrator_who_cancelled_a_job_through_clusterra(world: World) -> None:
    world.acme.scaler.unexplained = "not_found"
    job = world.acme.add_job("1", state="CANCELLED")
    world.acme.jobs["1"] = job.model_copy(update={"ended_at": now()})
    cancel = JobActionFact(kind="action.cancel", job_id="1", name="x", user="ada", uid=20001, actor="boss")
    world.acme.events.archived = [event_of("proxy", world.acme.ref, cancel, version="1", time=now())]

    async with (await world.login("ada@acme.example")).get("/v1/clusters/main/jobs/1/why") as answer:
        found = await answer.json()

    assert found["text"] == "It has ended as CANCELLED without a start because boss cancelled it."
    assert found["cancelled_by"] == "boss"


async def test_why_of_a_job_that_slurm_has_forgotten_is_in_the_archive(world: World) -> None:
    world.acme.scaler.unexplained = "not_found"
    fact = JobFact(
        kind="job.cancelled",
        job_id="7",
        name="x",
        user="ada",
        uid=20001,
        partition="main",
        state="CANCELLED",
        submitted_at=now(),
    )
    world.acme.events.archived = [event_of("proxy", world.acme.ref, fact, version="1", time=now())]
    browser = await world.login("ada@acme.example")

    async with browser.get("/v1/clusters/main/jobs/7/why") as answer:
        assert answer.status == 200
        found = await answer.json()
    async with (await world.login("bob@acme.example")).get("/v1/clusters/main/jobs/7/why") as answer:
        assert answer.status == 404

    assert found["text"] == "It has ended as CANCELLED without a start."
    assert (found["final_state"], found["exit_code"]) == ("CANCELLED", None)
    asked, *_ = world.acme.events.histories
    assert (asked.subject, asked.kinds, asked.newest_first, asked.limit) == ("7", tuple(sorted(JOB_ENDS)), True, 1)


async def test_a_job_that_waits_is_not_explained_without_a_scaler(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.scaler.unexplained = "unavailable"
    world.acme.add_job("1", state="PENDING")

    async with browser.get("/v1/clusters/main/jobs/1/why") as answer:
        assert answer.status == 503


async def test_a_job_can_be_cancelled(world: World) -> None:
    browser = await world.login("ada@acme.example")
    world.acme.add_job("42_7")

    async with browser.delete("/v1/clusters/main/jobs/42_7") as answer:
        assert answer.status == 204
        assert await answer.read() == b""

    async with browser.delete("/v1/clusters/main/jobs/43") as answer:
        assert answer.status == 404

    assert world.acme.cancelled == ["42_7"]


async def test_unknown_paths_and_methods_are_problems(world: World) -> None:
    browser = await world.browser()
    async with browser.get("/v1/nothing") as answer:
        assert (answer.status, answer.content_type) == (404, "application/problem+json")
    async with browser.put("/v1/clusters") as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "GET,HEAD")
        assert (await answer.json())["request_id"]
