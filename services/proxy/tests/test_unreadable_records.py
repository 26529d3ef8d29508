"""Bad records in real answers: each is named, and changes nothing about the other records of its answer."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from clusterra_contracts.identity import ClusterRef, now
from clusterra_contracts.queue import QueueSnapshot
from clusterra_proxy.cluster.job_table import JobTable
from clusterra_proxy.slurmrestd.accounting_records import AccountingJobs
from clusterra_proxy.slurmrestd.answers import Answer, Jobs, Nodes, States
from clusterra_proxy.slurmrestd.body_reader import read
from clusterra_proxy.slurmrestd.reading.fields import LATEST
from clusterra_proxy.slurmrestd.reading.repair import Unreadable
from clusterra_proxy.slurmrestd.reading.tally import MAX_NAMED, UNREADABLE, UnreadableRecords
from clusterra_proxy.slurmrestd.records import JobRecord, NodeRecord
from clusterra_proxy.slurmrestd.versions import VERSIONS, Version
from clusterra_proxy.watch.job_facts import job_event, transitions
from clusterra_proxy.watch.node_facts import PublishedNodeEvents
from clusterra_proxy.watch.snapshot import node_states, pending_jobs, running_jobs
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

RECORDED = Path(__file__).parent / "recorded"
ANSWERS: dict[str, dict[str, Any]] = {
    version.name: json.loads((RECORDED / f"{version.name}.json").read_text()) for version in VERSIONS
}
"""The recorded answers of a real slurmrestd, by version."""

JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([-1, 0, 2**31, 2**32 - 1, 2**63, 2**64 - 2, 2**64, 10**40, 300_000_000_000]),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["w[0-99999][0-99999]", "0-99999999999", "0x" + "f" * 99, "\ud800", "\x00", "9" * 5000]),
        st.sampled_from([["PENDING"], ["RUNNING"], ["RUNNING", "COMPLETING"], ["IDLE", "DRAIN"], "node=" + "9" * 5000]),
        st.builds(lambda number: {"set": True, "infinite": False, "number": number}, st.integers() | st.text()),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)


def answer(version: Version, *names: str) -> dict[str, Any]:
    """A copy of a recorded answer, with the records of others of its kind added."""
    bodies = [ANSWERS[version.name][name]["body"] for name in names]
    records = next(field for field in ("jobs", "nodes") if field in bodies[0])
    copied: dict[str, Any] = json.loads(json.dumps(bodies[0]))
    copied[records] = [record for body in bodies for record in json.loads(json.dumps(body[records]))]
    return copied


def encode(content: Any) -> bytes:
    """The content as slurmrestd would send it, also with what is not JSON."""
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")


@st.composite
def mutations(draw: st.DrawFn, content: dict[str, Any], field: str) -> tuple[dict[str, Any], int]:
    """An answer of which some fields of one record have other values, and the index of this record."""
    index = draw(st.integers(0, len(content[field]) - 1))
    changed: dict[str, Any] = json.loads(json.dumps(content))
    record = changed[field][index]
    for name in draw(st.lists(st.sampled_from(sorted(record)), min_size=1, max_size=3)):
        parent, key = record, name
        while isinstance(parent[key], dict) and parent[key] and draw(st.booleans()):
            parent, key = parent[key], draw(st.sampled_from(sorted(parent[key])))
        parent[key] = draw(JSON)
    if draw(st.integers(0, 9)) == 0:
        changed[field][index] = draw(JSON)
    return changed, index


def check_others(model: type[Answer], field: str, original: Any, changed: Any, index: int) -> Any:
    """Read a changed answer, and check that its other records are what they were. Returns what was read."""
    key = model.RECORD.KEY
    expected = list(getattr(read(model, orjson.dumps(original)), field))
    body = encode(changed)
    content = read(model, body)
    found = list(getattr(content, field))

    if len(found) == len(expected):
        assert found[:index] + found[index + 1 :] == expected[:index] + expected[index + 1 :]
    else:
        assert found == expected[:index] + expected[index + 1 :]
        assert content.unidentified == 1
    assert len(content.unreadable) <= 1
    for record in found:
        assert record.unreadable == () or str(getattr(record, key))[:64] == content.unreadable[0].id
    # A large answer goes through a subprocess as JSON.
    assert model.model_validate_json(content.model_dump_json(exclude_defaults=True, by_alias=True)) == content
    return content


def use_jobs(records: tuple[JobRecord, ...]) -> None:
    """Do with records all that the watcher does."""
    table = JobTable()
    table.replace(records, now())
    snapshot = QueueSnapshot(
        generation=1,
        taken_at=now(),
        pending=pending_jobs(table, table.waiting_tasks, now()),
        running=running_jobs(table, lambda record: record.parsed_comment.user),
        nodes=(),
    )
    assert QueueSnapshot.model_validate_json(snapshot.model_dump_json()) == snapshot
    for record in records:
        for transition in transitions(record):
            job_event(transition, record, "user").fact.model_dump_json()


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
@given(st.data())
def test_any_value_in_a_job_record_changes_no_other_record(version: Version, data: st.DataObject) -> None:
    original = answer(version, "job", "waiting_array", "array", "held")
    changed, index = data.draw(mutations(original, "jobs"))

    content = check_others(version.jobs, "jobs", original, changed, index)

    use_jobs(content.jobs)


@given(st.data())
def test_any_value_in_a_node_record_changes_no_other_record(data: st.DataObject) -> None:
    original = answer(VERSIONS[0], "nodes", "nodes")
    changed, index = data.draw(mutations(original, "nodes"))

    content = check_others(Nodes, "nodes", original, changed, index)

    events = PublishedNodeEvents()
    for node, state in zip(content.nodes, node_states(content.nodes), strict=True):
        assert not (node.unreadable and state.idle)
        state.model_dump_json()
        for event in events.take_unpublished(node, now()):
            event.fact.model_dump_json()


@given(st.data())
def test_any_value_in_an_accounting_record_changes_no_other_record(data: st.DataObject) -> None:
    original = answer(VERSIONS[0], "accounting")
    changed, index = data.draw(mutations(original, "jobs"))

    content = check_others(AccountingJobs, "jobs", original, changed, index)

    use_jobs(tuple(job.to_job_record(None) for job in content.jobs))


@given(st.data())
def test_any_value_in_a_row_of_states_changes_no_other_row(data: st.DataObject) -> None:
    original = answer(VERSIONS[0], "states")
    changed, index = data.draw(mutations(original, "jobs"))

    content = check_others(States, "jobs", original, changed, index)

    JobTable().apply_states(content.jobs, now(), unidentified=content.unidentified)


@pytest.mark.parametrize("seconds", [253_402_300_800, 300_000_000_000, 2**62, 2**63])
def test_a_time_beyond_the_calendar_is_as_late_as_can_be(seconds: int) -> None:
    content = answer(VERSIONS[0], "held", "job")
    content["jobs"][0]["eligible_time"] = {"set": True, "infinite": False, "number": seconds}

    jobs = read(Jobs, encode(content))

    assert jobs.unreadable == ()
    (group,) = pending_jobs(jobs.jobs[:1], lambda _: (), now())
    assert (group.begins_at, group.count) == (LATEST, 1)


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    content = answer(VERSIONS[0], "held", "job")
    content["jobs"][0]["name"] = "NAME"
    body = orjson.dumps(content).replace(b"NAME", b"bad\xff\xfe\xed\xa0\x80 name")

    jobs = read(Jobs, body)

    assert jobs.unreadable == ()
    assert jobs.jobs[0].name == "bad\ufffd\ufffd\ufffd\ufffd\ufffd name"


def test_a_job_with_an_unreadable_demand_waits_without_demand() -> None:
    content = answer(VERSIONS[0], "held", "job")
    content["jobs"][0]["cpus"] = "a secret value"

    jobs = read(Jobs, encode(content))
    (group,) = pending_jobs(jobs.jobs, lambda _: (), now())

    assert jobs.unreadable == (Unreadable(id=str(jobs.jobs[0].job_id), problems=("cpus: int_parsing",)),)
    assert (group.job_ids, group.count, group.reason) == ((jobs.jobs[0].id,), 0, "Unreadable: cpus")
    assert group.uid == jobs.jobs[0].user_id


def test_an_unreadable_state_is_no_end() -> None:
    content = answer(VERSIONS[0], "job")
    content["jobs"][0]["job_state"] = 7

    (record,) = read(Jobs, encode(content)).jobs

    assert (record.state, record.ended, record.started_at) == ("UNKNOWN", False, None)
    assert [transition.kind for transition in transitions(record)] == ["job.submitted"]


@pytest.mark.parametrize("field", ["state", "alloc_cpus", "alloc_memory", "cpus", "real_memory", "gres_used"])
def test_a_node_with_an_unreadable_field_is_neither_idle_nor_has_room(field: str) -> None:
    content = answer(VERSIONS[0], "nodes")
    content["nodes"][0][field] = {"no": "such value"}

    (node,) = read(Nodes, encode(content)).nodes
    (state,) = node_states((node,))

    assert node.busy
    assert not state.idle
    assert state.cpus_allocated >= state.cpus
    assert state.memory_allocated_mib >= state.memory_mib


def test_jobs_are_not_missing_in_a_list_with_unreadable_ids() -> None:
    jobs = read(Jobs, encode(answer(VERSIONS[0], "held", "job")))
    table = JobTable()
    table.replace(jobs.jobs, now())

    removed = table.replace(jobs.jobs[:1], now(), unidentified=1)

    assert (removed, len(table)) == ((), 2)
    assert table.apply_states((), now(), unidentified=1).removed == ()
    assert len(table.apply_states((), now()).removed) == 2


def test_each_unreadable_record_is_named_once_without_its_values() -> None:
    content = answer(VERSIONS[0], "held", "job")
    content["jobs"][0] |= {"cpus": "a secret value", "name": ["another"]}
    found = read(Jobs, encode(content)).unreadable
    tally = UnreadableRecords(ClusterRef(tenant="acme", cluster="tally"))
    counter = UNREADABLE.labels("acme", "tally", "job")

    with capture_logs() as logs:
        for _ in range(3):
            tally.note("job", found)

    assert [(entry["id"], sorted(entry["problems"])) for entry in logs] == [
        (found[0].id, ["cpus: int_parsing", "name: string_type"])
    ]
    assert "secret" not in str(logs)
    assert counter._value.get() == 1


def test_the_log_names_a_bounded_number_of_records() -> None:
    tally = UnreadableRecords(ClusterRef(tenant="acme", cluster="many"))

    with capture_logs() as logs:
        tally.note("job", (Unreadable(id=str(number)) for number in range(3 * MAX_NAMED)))

    assert len(logs) == MAX_NAMED
    assert UNREADABLE.labels("acme", "many", "job")._value.get() == 3 * MAX_NAMED


def test_a_record_without_an_identity_is_left_out() -> None:
    content = answer(VERSIONS[0], "nodes", "nodes")
    content["nodes"][0]["name"] = None

    nodes = read(Nodes, encode(content))

    assert (len(nodes.nodes), nodes.unidentified, type(nodes.nodes[0])) == (1, 1, NodeRecord)


def test_an_answer_that_is_no_list_is_refused() -> None:
    for body in (b"[]", b'{"jobs": "none"}', b'{"jobs": 7}', b"[" * 100_000, b"\xff"):
        with pytest.raises(ValueError, match=r".+"):
            read(Jobs, body)
