"""The prices of listed jobs are those of each job alone, whatever was priced before."""

from typing import Any

from clusterra_contracts.identity import now
from clusterra_contracts.job_price import JobPrices
from clusterra_contracts.rpc.slurm import Job
from clusterra_gateway.money.quotas.jobs import ListedPrices
from gateway_world import CATALOGUE
from hypothesis import given
from hypothesis import strategies as st

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "cpus": st.sampled_from([1, 4, 1000]),
    "cpus_per_task": st.sampled_from([1, 2]),
    "cpus_per_node": st.sampled_from([1, 2]),
    "min_nodes": st.sampled_from([None, 1, 3]),
    "max_nodes": st.sampled_from([None, 4]),
    "memory_per_gpu_mib": st.sampled_from([None, 1024]),
    "all_memory": st.booleans(),
    "exclusive": st.booleans(),
    "started_at": st.sampled_from([None, now()]),
    "tasks": st.sampled_from([1, 2]),
    "node_count": st.sampled_from([1, 2]),
    "memory_per_node_mib": st.sampled_from([None, 1024, 10**7]),
    "memory_per_cpu_mib": st.sampled_from([None, 512]),
    "constraints": st.sampled_from(["", "nowhere", "a&"]),
    "gres": st.sampled_from(["", "job/gpu=1", "job/gpu=%"]),
    "partition": st.sampled_from(["", "other"]),
    "time_limit_seconds": st.sampled_from([None, 60.0, 3600.0]),
    "uid": st.sampled_from([5001, 5002]),
    "reason": st.sampled_from(["", "Priority"]),
}


def job(fields: dict[str, Any]) -> Job:
    return Job(job_id="7", name="solve", user="ada", state="PENDING", submitted_at=now(), **fields)


@given(st.lists(st.tuples(st.fixed_dictionaries(FIELDS).map(job), st.integers(1, 3)), max_size=30))
def test_each_job_costs_what_it_costs_alone(jobs: list[tuple[Job, int]]) -> None:
    prices = ListedPrices(CATALOGUE)

    together = [prices.micro_usd(each, tasks) for each, tasks in jobs]

    assert together == [JobPrices(CATALOGUE).micro_usd(each.request, tasks) for each, tasks in jobs]


@given(st.fixed_dictionaries(FIELDS).map(job))
def test_a_job_of_several_records_costs_their_sum_or_nobody_knows_it(each: Job) -> None:
    prices = ListedPrices(CATALOGUE)
    alone = prices.micro_usd(each, 1)

    whole = prices.projected((each, each.model_copy(update={"job_id": "8", "het_job_id": "7"})))

    assert whole == (None if alone is None else 2 * alone)
