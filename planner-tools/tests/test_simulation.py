"""Simulations end to end: they have no violations, and their figures can be recomputed from the result file alone."""

import json
import os
from pathlib import Path
from typing import Literal

import pytest
from clusterra_planner_tools.cli import command
from clusterra_planner_tools.simulate import catalogue, result, trace
from clusterra_planner_tools.simulate.catalogue import Catalogue, CatalogueUnreadable
from clusterra_planner_tools.simulate.figures import figures, violations
from clusterra_planner_tools.simulate.keep_alive import AT_MOST_SECONDS
from clusterra_planner_tools.simulate.packing_policy import PackingPolicy
from clusterra_planner_tools.simulate.policies import FamilyPolicy
from clusterra_planner_tools.simulate.result import JobRun, Part, Result, WorkerRun
from clusterra_planner_tools.simulate.simulation import POLICIES, Options, PolicyName, RunTimeSource, simulate
from clusterra_planner_tools.simulate.trace import Job, Trace
from clusterra_planner_tools.simulate.world import Failures, World
from clusterra_scaler.planner.estimates.run_time_model import RunTimeModel
from clusterra_scaler.planner.estimates.settings import LearningSettings
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from trace_examples import SHAPES, plain, with_request, written
from typer.testing import CliRunner

HOUR = 3600.0
jobs = st.builds(
    Job,
    id=st.just(0),
    submit=st.one_of(st.integers(0, 300), st.integers(0, 200_000)).map(float),
    run_seconds=st.one_of(st.integers(0, 100), st.integers(0, 100_000)).map(float),
    limit_seconds=st.sampled_from([None, 7200.0, 86400.0]),
    nodes=st.sampled_from([1, 1, 1, 2, 4]),
    cpus=st.integers(1, 17),
    memory_gib=st.floats(0.0, 130.0),
    user=st.sampled_from(["ada", "bob"]),
    exclusive=st.sampled_from([False, False, False, True]),
)
any_jobs = st.lists(jobs, min_size=1, max_size=25)
any_failures = st.builds(Failures, st.sampled_from([0.0, 0.3]), st.sampled_from([0.0, 0.3]), seed=st.integers(0, 100))


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    path = tmp_path_factory.mktemp("catalogue") / "shapes.yaml"
    path.write_text(SHAPES)
    return catalogue.read(path)


def numbered(given_jobs: list[Job]) -> Trace:
    """A trace of these jobs, with numbers, and of one job that fits any catalogue."""
    always = Job(0, 0.0, 60.0, None, 1, 1, 1.0, "ada")
    every = [always, *given_jobs]
    return Trace(
        Path("drawn"),
        tuple(
            Job(n, j.submit, j.run_seconds, j.limit_seconds, j.nodes, j.cpus, j.memory_gib, j.user, j.exclusive)
            for n, j in enumerate(sorted(every, key=lambda job: job.submit), start=1)
        ),
    )


def longest_idle_seconds(done: Result) -> float:
    """The longest time for which a worker was paid for after its last job."""
    ends = {worker.id: worker.launch for worker in done.workers}
    for run in done.jobs:
        for part in run.parts:
            ends[part.worker] = max(ends[part.worker], run.end)
    return max(worker.release - ends[worker.id] for worker in done.workers)


@pytest.mark.parametrize("policy", POLICIES)
@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(any_jobs, st.sampled_from([0.0, 600.0, "learned"]), any_failures)
def test_a_simulation_has_no_violations_and_every_job_that_fits_ends(
    shapes: Catalogue, policy: PolicyName, drawn: list[Job], keep: float | Literal["learned"], failures: Failures
) -> None:
    run = numbered(drawn)
    done = simulate(run, shapes, Options(policy, keep_alive=keep, failures=failures))
    assert done.figures.violations == ()
    assert done.figures.cost_usd >= done.figures.bound_usd * (1 - 1e-9)

    kept_at_most = AT_MOST_SECONDS if keep == "learned" else keep
    assert longest_idle_seconds(done.result) <= kept_at_most + 60.0 + 1e-6 or failures.boot_share or failures.loss_share
    assert done.figures.jobs == sum(bool(shapes.fitting(job)) for job in run.jobs)
    if failures == Failures(seed=failures.seed) and policy != "packing":
        assert done.figures.wait_max <= 60.0
    if failures == Failures(seed=failures.seed) and policy == "packing":
        assert done.figures.wait_max <= 120.0


@pytest.mark.parametrize("source", ["learned", "known", "wall-limits"])
@hypothesis_settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(any_jobs)
def test_a_simulation_is_deterministic(shapes: Catalogue, source: RunTimeSource, drawn: list[Job]) -> None:
    run = numbered(drawn)
    first = simulate(run, shapes, Options(run_times=source))
    assert simulate(run, shapes, Options(run_times=source)) == first
    assert first.figures.violations == ()


def test_slurm_may_fill_the_oldest_worker_first(shapes: Catalogue) -> None:
    run = numbered([Job(0, 500.0 * n, 4000.0, None, 1, 2, 2.0, "ada") for n in range(50)])
    result = World(run.jobs, PackingPolicy(shapes, RunTimeModel(LearningSettings()), rank="oldest")).run()
    assert list(violations(result, run.jobs, shapes)) == []


@pytest.mark.parametrize(("wait_usd_per_hour", "starts", "wait_mean"), [(0.0, 2, 90.0), (100.0, 1, 45.0)])
def test_a_price_of_waiting_lets_a_job_in_where_it_costs_more(
    shapes: Catalogue, wait_usd_per_hour: float, starts: int, wait_mean: float
) -> None:
    """The second job would keep a worker of 16 CPUs for hours on which it needs 2."""
    run = Trace(
        Path("drawn"),
        (
            Job(1, 0.0, 600.0, None, 1, 12, 20.0, "ada"),
            Job(2, 300.0, 4 * HOUR, None, 1, 2, 2.0, "ada"),
        ),
    )

    done = simulate(run, shapes, Options(run_times="known", wait_usd_per_hour=wait_usd_per_hour))

    assert (done.figures.worker_starts, done.figures.wait_mean) == (starts, wait_mean)
    assert done.figures.starts_per_job == starts / 2


def test_the_family_policy_buys_the_documented_shapes(shapes: Catalogue) -> None:
    run = [Job(1, 0.0, HOUR, None, 1, 5, 10.0, "ada"), Job(2, 0.0, HOUR, None, 1, 1, 2.0, "ada")]
    run.append(Job(3, 0.0, HOUR, None, 1, 1, 30.0, "ada"))
    done = World(run, FamilyPolicy(shapes)).run()
    # The size follows the family's biggest job, and the small job of that family fits beside it.
    assert sorted(worker.shape for worker in done.workers) == ["compute-16", "memory-4"]


def test_a_kept_worker_serves_the_next_job(shapes: Catalogue) -> None:
    run = numbered([Job(0, 1000.0, HOUR, None, 1, 1, 1.0, "ada")])
    assert simulate(run, shapes, Options("first-fit")).figures.worker_starts == 2
    kept = simulate(run, shapes, Options("first-fit", keep_alive=1000.0))
    assert kept.figures.worker_starts == 1
    assert kept.result.workers[0].release == pytest.approx(1000.0 + HOUR + 1000.0)


@pytest.mark.parametrize(("every_seconds", "starts"), [(100.0, 1), (1000.0, 60)])
def test_the_learned_keep_alive_keeps_workers_that_are_used_again(
    shapes: Catalogue, every_seconds: float, starts: int
) -> None:
    run = numbered([Job(0, every_seconds * n, 30.0, None, 1, 1, 1.0, "ada") for n in range(1, 60)])
    learned = simulate(run, shapes, Options("first-fit", keep_alive="learned"))
    assert learned.figures.worker_starts == starts

    last, end = learned.result.workers[-1], learned.result.jobs[-1].end
    kept = last.release - end
    # Workers that are not used again are released at once; those that are, within 70 s, are kept that long.
    assert kept == 0 if starts > 1 else 70 <= kept <= 100


VALID = Result(
    jobs=(
        JobRun(id=1, submit=0, start=60, end=160, parts=(Part(worker=0, cpus=2, memory_gib=4),)),
        JobRun(id=2, submit=0, start=60, end=260, parts=(Part(worker=1, cpus=2, memory_gib=4),)),
    ),
    workers=(
        WorkerRun(id=0, shape="compute-4", launch=0, release=160),
        WorkerRun(id=1, shape="compute-4", launch=0, release=260),
    ),
)
JOBS_OF_VALID = [
    Job(1, 0.0, 100.0, None, 1, 2, 4.0, "ada", exclusive=True),
    Job(2, 0.0, 200.0, None, 1, 2, 4.0, "ada"),
    Job(3, 0.0, 200.0, None, 1, 64, 4.0, "ada"),
]


def changed(job: int = 0, worker: int = 0, **change: object) -> Result:
    """VALID with other values in a job, in its part, or in a worker."""
    found = VALID.model_dump()
    for place in (found["jobs"][job], found["jobs"][job]["parts"][0], found["workers"][worker]):
        place.update({key: value for key, value in change.items() if key in place})
    return Result.model_validate(found)


def test_a_valid_result_has_no_violation(shapes: Catalogue) -> None:
    found = figures(VALID, JOBS_OF_VALID, shapes)
    assert found.violations == ()
    # Cost: 160 + 260 s of a compute-4. Bound: 100 s of a whole one and 100 s of a half, without boots.
    assert found.cost_usd == pytest.approx(420 * 0.145 / HOUR)
    assert found.bound_usd == pytest.approx(150 * 0.145 / HOUR)
    assert (found.wait_mean, found.wait_p50, found.wait_p99) == (60, 60, 60)
    assert (found.worker_starts, found.starts_per_job) == (2, 1.0)


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (changed(end=150), "run time differs"),
        (changed(submit=1), "run time differs"),
        (changed(start=59, end=159), "not up"),
        (changed(release=159), "not up"),
        (changed(cpus=1), "does not have the CPUs and memory"),
        (changed(memory_gib=3), "does not have the CPUs and memory"),
        (changed(job=1, worker=1, cpus=2).model_copy(update={"jobs": VALID.jobs[:1]}), "did not run"),
        (VALID.model_copy(update={"jobs": (*VALID.jobs, VALID.jobs[1])}), "ran twice"),
        (VALID.model_copy(update={"workers": (*VALID.workers, VALID.workers[1])}), "listed twice"),
        (VALID.model_copy(update={"workers": VALID.workers[:1]}), "never bought"),
        (
            changed(job=1).model_copy(update={"jobs": (VALID.jobs[0], VALID.jobs[1].model_copy(update={"id": 9}))}),
            "not in the trace",
        ),
    ],
)
def test_each_violation_is_found(shapes: Catalogue, bad: Result, what: str) -> None:
    assert [found for found in violations(bad, JOBS_OF_VALID, shapes) if what in found.what]


def test_overcommitted_workers_are_found(shapes: Catalogue) -> None:
    together = changed(job=1, worker=0, release=260)
    moved = together.jobs[1].model_copy(update={"parts": (Part(worker=0, cpus=2, memory_gib=4),)})

    result = together.model_copy(update={"jobs": (together.jobs[0], moved)})
    assert [each.what for each in violations(result, JOBS_OF_VALID, shapes)] == ["an exclusive job shares its worker"]

    shared = [Job(1, 0.0, 100.0, None, 1, 3, 4.0, "ada"), JOBS_OF_VALID[1], JOBS_OF_VALID[2]]
    crowd = result.model_copy(
        update={"jobs": (together.jobs[0].model_copy(update={"parts": (Part(worker=0, cpus=3, memory_gib=4),)}), moved)}
    )
    assert [each.what for each in violations(crowd, shared, shapes)] == ["a worker is overcommitted"]


LINES = (
    "; Version: 2.2",
    plain(1, 0, 3000, 2, limit=7200, kb=1024 * 1024),
    plain(2, 10, 600, 16, limit=7200),
    with_request(3, 20, 600, "1:ppn=99", 3.0, 99),
    plain(5, 25, 600, 99),
    with_request(4, 30, 900, "2:ppn=2#excl", 3.0, 4),
    "nothing",
)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_command_prints_and_writes_its_figures(tmp_path: Path, policy: str) -> None:
    swf, yaml = written(tmp_path, *LINES)
    out, picture = tmp_path / "out.json", tmp_path / "out.svg"
    options = ["--policy", policy, "--out", str(out), "--picture", str(picture), "--json"]

    done = CliRunner().invoke(command, ["simulate", str(swf), "--shapes", str(yaml), *options])
    assert done.exit_code == 0, done.output

    printed = json.loads(done.stdout)
    assert (printed["jobs"], printed["bad_lines"], printed["jobs_that_fit_no_shape"]) == (4, 1, 1)
    assert "trace.swf:7: has 1 of 18 columns" in done.stderr
    assert "1 jobs fit no shape and are left out: 3" in done.stderr

    (spread,) = (job for job in result.read(out).jobs if job.id == 5)
    assert [part.cpus for part in spread.parts] == [15] * 7, "no shape has more than 16 CPUs"

    again = figures(result.read(out), trace.read(swf, node_cpus=16).jobs, catalogue.read(yaml))
    assert json.loads(again.model_dump_json()).items() <= printed.items()
    assert "<svg" in picture.read_text()


def test_the_command_prints_a_table_and_checks_its_options(tmp_path: Path) -> None:
    swf, yaml = written(tmp_path, *LINES)
    for options in (
        [],
        ["--known-run-times", "--failures", "0.5", "--seed", "3", "--keep", "150"],
        ["--wall-limits", "--to", "0.5", "--keep", "learned", "--wait-usd-per-hour", "4"],
    ):
        done = CliRunner().invoke(command, ["simulate", str(swf), "--shapes", str(yaml), *options])
        assert done.exit_code == 0, done.output
        assert "cost / bound" in done.stdout
    for nonsense in ("-1", "nan", "inf"):
        price = ["--wait-usd-per-hour", nonsense]
        assert CliRunner().invoke(command, ["simulate", str(swf), "--shapes", str(yaml), *price]).exit_code == 2
    for nonsense in ("ages", "-1", "nan"):
        done = CliRunner().invoke(command, ["simulate", str(swf), "--shapes", str(yaml), "--keep", nonsense])
        assert done.exit_code == 2
        assert "learned" in done.stderr


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("shapes: []", "shapes"),
        ("shapes:\n  - {name: a, vcpu: 2, memory_gib: 4}", "shapes.0.price"),
        (
            "shapes:\n  - {name: a, vcpu: 2, memory_gib: 4, price: 1}\n  - {name: a, vcpu: 2, memory_gib: 4, price: 1}",
            "duplicate",
        ),
        ("a: [", "not valid YAML"),
    ],
)
def test_an_invalid_catalogue_is_an_error(tmp_path: Path, content: str, what: str) -> None:
    swf, yaml = written(tmp_path, *LINES)
    yaml.write_text(content)
    with pytest.raises(CatalogueUnreadable, match=what):
        catalogue.read(yaml)

    done = CliRunner().invoke(command, ["simulate", str(swf), "--shapes", str(yaml)])

    assert done.exit_code == 1
    assert str(yaml) in done.stderr
    assert "Traceback" not in done.stderr


def test_the_repositorys_catalogue_is_read() -> None:
    path = Path(__file__).parents[2] / "catalog" / "shapes.yaml"
    own = catalogue.read(path, boot_seconds=90.0)
    assert own["compute-xs"].memory_gib == 2104 / 1024
    assert own["compute-xs"].boot_seconds == 90.0
    assert own["memory-xlarge"].usd_per_second == pytest.approx(1.7136 / HOUR)


def test_packing_costs_less_than_a_worker_per_job_on_a_real_trace() -> None:
    usual = Path(__file__).parents[2].parent / "shared" / "data" / "traces"
    folder = Path(os.environ.get("CLUSTERRA_TRACES", usual))
    if not (folder / "wagap-2013.swf").exists():
        pytest.skip(f"no wagap-2013.swf in {folder}: name the folder with it and shapes.yaml in CLUSTERRA_TRACES")

    run = trace.read(folder / "wagap-2013.swf")
    assert (len(run.jobs), len(run.bad)) == (17898, 2)

    own = catalogue.read(folder / "shapes.yaml")
    assert sum(not own.fitting(job) for job in run.jobs) == 116

    weeks = run.between(None, "0.2")
    packing, alone = (simulate(weeks, own, Options(policy)).figures for policy in ("packing", "one-worker-per-job"))
    assert packing.violations == alone.violations == ()
    assert packing.cost_usd < alone.cost_usd
    assert packing.wait_max <= 120.0
