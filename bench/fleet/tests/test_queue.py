"""A simulated queue books what runs, and its answers are those of a slurmrestd to the proxy's own models."""

import random

import orjson
import pytest
from clusterra_contracts.shapes import WorkerSpec
from clusterra_proxy.slurmrestd.answers import Nodes, States
from clusterra_proxy.slurmrestd.versions import V44
from fleet.queue import KEEP_ENDED_SECONDS, Queue, Request
from fleet.recorded import Answers
from hypothesis import given
from hypothesis import strategies as st

ANSWERS = Answers()
WORKER = WorkerSpec(cpus=4, memory_mib=8192, features=("general", "general-small"))
AT = 1_800_000_000


def played(seed: int, steps: int) -> Queue:
    """A queue after random submits, starts, ends and lost workers."""
    chance, queue = random.Random(seed), Queue(ANSWERS)
    for step in range(steps):
        at = AT + step
        jobs, nodes = list(queue.jobs.values()), list(queue.nodes.values())
        match chance.randrange(5):
            case 0:
                queue.submit(Request(chance.randint(1, 4), 1024 * chance.randint(1, 8), "general"), at)
            case 1:
                queue.register(f"w{step}", WORKER, at)
            case 2 if pair := [(j, n) for j in jobs if j.state == "PENDING" for n in nodes if n.fits(j)]:
                queue.start(*chance.choice(pair), at)
            case 3 if live := [job for job in jobs if job.state in ("PENDING", "RUNNING")]:
                queue.end(chance.choice(live), at)
            case 4 if nodes:
                queue.set_state(chance.choice(nodes).name, [chance.choice(("DRAIN", "RESUME"))], "test", at)
        queue.purge(at)
    return queue


@given(st.integers(0, 10_000), st.integers(0, 120))
def test_answers_show_what_happened(seed: int, steps: int) -> None:
    queue = played(seed, steps)

    states = States.model_validate(orjson.loads(queue.states_body()))
    listed = b"".join(queue.jobs_parts(AT))
    jobs = V44.jobs.model_validate(orjson.loads(listed))
    nodes = Nodes.model_validate(orjson.loads(queue.nodes_body(AT)))

    assert queue.jobs_size(AT) == len(listed)
    assert {(row.job_id, *row.state) for row in states.jobs} == {(str(j.job_id), j.state) for j in queue.jobs.values()}
    assert {job.job_id: (job.state, job.hosts, job.cpus) for job in jobs.jobs} == {
        each.job_id: (each.state, (each.node,) if each.node else (), each.request.cpus) for each in queue.jobs.values()
    }
    for node in nodes.nodes:
        running = [job for job in jobs.jobs if job.state == "RUNNING" and job.hosts == (node.name,)]
        assert node.alloc_cpus == sum(job.cpus or 0 for job in running) <= node.cpus
        assert node.alloc_memory == sum(job.memory_per_node or 0 for job in running) <= node.real_memory


def test_ended_jobs_are_forgotten_after_a_while() -> None:
    queue = Queue(ANSWERS)
    job = queue.submit(Request(1, 1024, ""), AT)
    queue.end(job, AT)

    queue.purge(AT + KEEP_ENDED_SECONDS)
    assert queue.jobs

    queue.purge(AT + KEEP_ENDED_SECONDS + 1)
    assert not queue.jobs
    assert States.model_validate(orjson.loads(queue.states_body())).jobs == ()


def test_a_field_that_slurm_does_not_send_is_refused() -> None:
    with pytest.raises(KeyError):
        type(ANSWERS.job)({"job_id": 1}, {"invented": 2}, ())
