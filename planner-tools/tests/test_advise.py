"""`advise`: dirty records, the report, and prices of work whose price is known."""

import gzip
import io
import json
import re
from contextlib import suppress
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from clusterra_planner_tools.advise import slurm_values
from clusterra_planner_tools.advise.advice import CannotAdvise, Request, advise
from clusterra_planner_tools.advise.fixed_fleet import TooManyWait, fewest_nodes, peak_nodes, waits
from clusterra_planner_tools.advise.json_stream import REPARSED_BYTES, EndsEarly, RecordCutter
from clusterra_planner_tools.advise.left_out import LeftOut
from clusterra_planner_tools.advise.reading import Read, ReadOptions, read
from clusterra_planner_tools.advise.report import page
from clusterra_planner_tools.advise.sacct_json import jobs as json_jobs
from clusterra_planner_tools.simulate.trace import Job
from clusterra_scaler.planner.packing.items import Offering
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
RECORDED = Path(__file__).parent / "recorded"
"""What sacct of the lab's Slurm printed: `--json`; all columns; those that the guide names; those of `sacct -P`."""
WAGAP = ROOT.parent / "shared" / "data" / "traces" / "wagap-2013.swf"
HEADER = "JobID|User|State|Submit|Start|End|Elapsed|Timelimit|NNodes|ReqCPUS|ReqMem|ReqTRES|AllocTRES"


def row(ident: str = "1", **changed: str) -> str:
    values = {
        "JobID": ident, "User": "ada", "State": "COMPLETED", "Submit": "2026-01-01T00:00:00",
        "Start": "2026-01-01T00:10:00", "End": "2026-01-01T01:10:00", "Elapsed": "01:00:00", "Timelimit": "02:00:00",
        "NNodes": "1", "ReqCPUS": "2", "ReqMem": "4G", "ReqTRES": "", "AllocTRES": "",
    }  # fmt: skip
    return "|".join((values | changed)[name] for name in HEADER.split("|"))


def written(folder: Path, *rows: str) -> Path:
    path = folder / "sacct.txt"
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


def read_rows(folder: Path, *rows: str) -> Read:
    return read(written(folder, *rows), ReadOptions())


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"ReqMem": "4Gn", "NNodes": "2", "ReqCPUS": "8"}, (2, 4, 4.0, 0)),
        ({"ReqMem": "4Gc", "NNodes": "2", "ReqCPUS": "8"}, (2, 4, 16.0, 0)),
        ({"ReqMem": "4000M"}, (1, 2, 4000 / 1024, 0)),
        ({"ReqMem": "0", "AllocTRES": "cpu=2,mem=62G,node=1"}, (1, 2, 62.0, 0)),
        ({"ReqMem": ""}, (1, 2, 4.0, 0)),
        ({"ReqTRES": "billing=8,cpu=8,gres/gpu=4,mem=32G,node=2", "NNodes": "2"}, (2, 4, 16.0, 2)),
        ({"ReqTRES": "cpu=1,gres/gpu:l4=2,gres/gpu=2,mem=1G", "ReqCPUS": "1"}, (1, 1, 1.0, 2)),
        ({"NNodes": "0", "ReqCPUS": "3"}, (1, 3, 4.0, 0)),
    ],
)
def test_resources_of_a_job(tmp_path: Path, changed: dict[str, str], expected: tuple[int, int, float, int]) -> None:
    (job,) = read_rows(tmp_path, row(**changed)).trace.jobs
    assert (job.nodes, job.cpus, job.memory_gib, job.gpus) == expected


def test_one_bad_record_is_one_bad_record(tmp_path: Path) -> None:
    found = read_rows(
        tmp_path,
        row("1"),
        row("1.batch"),
        row("2", State="CANCELLED by 1000", Start="None", Elapsed="00:00:00"),
        row("3_[4-9%2]", State="PENDING", Start="Unknown", End="Unknown", Elapsed="00:00:00"),
        row("4", Submit="yesterday"),
        row("5", ReqCPUS="many"),
        row("6", User="a|b"),
        row("7", ReqCPUS="99999999999"),
        row("8", Timelimit="UNLIMITED", State="NODE_FAIL"),
        row("1"),
        row("1", Start="2026-01-02T00:00:00", State="REQUEUED"),
        row("9", State="RUNNING", End="Unknown", Elapsed="1-00:00:01"),
        row("10+0"), row("10+1"),
        row("11", Elapsed="9000-00:00:00"),
        "\x00\x1b[31m|",
    )  # fmt: skip
    jobs = found.trace.jobs

    assert len(jobs) == 6
    assert sorted(job.run_seconds for job in jobs) == [3600.0] * 5 + [86401.0]
    assert found.counts.skipped == {"steps of jobs": 1, "jobs that never started": 2}
    assert found.counts.bad == {
        "submit: not a value of Slurm's": 1,
        "reqcpus: not a value of Slurm's": 2,
        "more or fewer columns than the header": 2,
        "the same run of a job as in an earlier record": 1,
        "ran for more than a year": 1,
    }
    assert found.counts.first_bad["submit: not a value of Slurm's"] == 5


def test_clocks_that_change_do_not_change_run_times(tmp_path: Path) -> None:
    (job,) = read_rows(
        tmp_path,
        row(Submit="2026-10-25T02:50:00", Start="2026-10-25T02:55:00", End="2026-10-25T02:05:00", Elapsed="00:10:00"),
    ).trace.jobs
    assert (job.run_seconds, job.waited) == (600.0, 300.0)


def test_gzip_and_a_header_with_a_last_delimiter(tmp_path: Path) -> None:
    path = tmp_path / "sacct.gz"
    path.write_bytes(gzip.compress(f"{HEADER}|\n{row()}|\n".encode()))
    assert len(read(path, ReadOptions()).trace.jobs) == 1
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CannotAdvise, match="damaged gzip"):
        advise(Request(path))


@pytest.mark.parametrize("text", ["", "words\n", row() + "\n", "JobID|User\n1|a\n", "[]", '{"a": 1}', HEADER + "\n"])
def test_what_cannot_be_read_says_what_can(tmp_path: Path, text: str) -> None:
    path = tmp_path / "input"
    path.write_text(text)
    with pytest.raises(CannotAdvise, match="input: "):
        advise(Request(path))


def job_record(ident: int, **changed: object) -> dict[str, object]:
    return {
        "account": "a",
        "association": {"account": "a", "cluster": "c"},
        "job_id": ident,
        "user": "ada",
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "time": {
            "submission": 1000, "eligible": 1010, "start": 1020, "end": 1080, "elapsed": 60,
            "limit": {"set": True, "infinite": False, "number": 5},
        },
        "tres": {"requested": [{"type": "cpu", "name": "", "id": 1, "count": 2}, {"type": "mem", "count": 2048},
                               {"type": "gres", "name": "gpu", "count": 1}], "allocated": []},
        "steps": [{"account": "a"}, {"account": "b"}],
    } | changed  # fmt: skip


@pytest.mark.parametrize("indent", [None, 2])
def test_json_records(indent: int | None) -> None:
    document = {"jobs": [job_record(1), job_record(2, time={"elapsed": "soon"}), job_record(3)], "meta": {"x": []}}
    one, two, three = json_jobs(io.BytesIO(json.dumps(document, indent=indent).encode()))

    assert not isinstance(one, LeftOut)
    assert (one.requested.cpus, one.requested.memory_mib, one.requested.gpus) == (2, 2048, 1)
    assert (one.limit_seconds, one.eligible, one.elapsed, one.state) == (300, 1010, 60, "COMPLETED")
    assert isinstance(two, LeftOut)
    assert not isinstance(three, LeftOut)


@given(
    st.lists(st.dictionaries(st.text(max_size=3), st.recursive(st.integers() | st.text(max_size=5), st.lists))),
    st.booleans(),
)
def test_any_list_is_cut_into_its_records(records: list[dict[str, object]], compact: bool) -> None:
    named = [{"a": number, **each} for number, each in enumerate(records)]
    body = json.dumps({"jobs": named, "a": []}, indent=None if compact else 1).encode()

    assert list(RecordCutter(io.BytesIO(body), "jobs", _parsed)) == json.loads(body)["jobs"]


def _parsed(piece: bytes) -> object:
    try:
        return json.loads(piece)
    except ValueError as error:
        raise EndsEarly from error


def test_broken_json_costs_the_broken_record_alone() -> None:
    good = [json.dumps(job_record(number), indent=1) for number in range(4)]
    broken = good[1][:200] + "\x00" + good[1][200:]
    body = '{"jobs": [' + ",".join([good[0], broken, good[2], good[3]]) + "]}"

    found = list(json_jobs(io.BytesIO(body.encode())))
    assert [each.ident for each in found if not isinstance(each, LeftOut)] == ["0", "2", "3"]
    cut = list(json_jobs(io.BytesIO(body[:-300].encode())))
    assert [each.ident for each in cut if not isinstance(each, LeftOut)] == ["0", "2"]
    assert "ends in the middle" in str(cut[-1])


def test_a_document_full_of_damage_is_parsed_a_bounded_number_of_times() -> None:
    parsed = 0

    def parse(piece: bytes) -> object:
        nonlocal parsed
        parsed += len(piece)
        if len(piece) > 1000 or b"[" in piece:
            raise EndsEarly
        return json.loads(piece)

    body = b'{"jobs": [' + b'{"a": [1, 2, 3,\n' * 600_000 + b'{"a": 1}]}'
    found = list(RecordCutter(io.BytesIO(body), "jobs", parse))

    assert parsed < 2 * REPARSED_BYTES + 20 * len(body)
    assert all(isinstance(each, LeftOut) for each in found[:-1])


@given(st.text(max_size=30))
def test_values_are_read_or_refused(text: str) -> None:
    for reader in (slurm_values.duration, slurm_values.count, slurm_values.memory, slurm_values.resources):
        with suppress(ValueError):
            reader(text)


@given(st.integers(0, 10**8))
def test_durations_are_read_as_slurm_writes_them(seconds: int) -> None:
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    assert slurm_values.duration(f"{days}-{clock}" if days else clock) == seconds


def _job(number: int, submit: float, run: float, cpus: int) -> Job:
    return Job(number, submit, run, None, 1, cpus, 1.0, "ada")


NODE = Offering("node", 4, 16.0, 1 / 3600, 60.0)


def test_jobs_wait_on_a_fixed_fleet_until_others_end() -> None:
    jobs = [_job(1, 0, 100, 4), _job(2, 10, 100, 3), _job(3, 20, 50, 1)]

    assert sorted(waits(jobs, NODE, 1)[0]) == [0.0, 80.0, 90.0]
    assert waits(jobs, NODE, 2) == ([0.0, 0.0, 0.0], 110.0)
    assert peak_nodes(jobs, NODE) == fewest_nodes(jobs, NODE, 0.0, 0.0) == 2
    assert fewest_nodes(jobs, NODE, 90.0, 0.0) == 1
    with pytest.raises(TooManyWait):
        waits(jobs, NODE, 1, patience=5.0)


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 200), st.integers(1, 4)), min_size=1, max_size=40))
def test_every_job_runs_and_no_node_is_overcommitted(drawn: list[tuple[int, int, int]]) -> None:
    jobs = sorted((_job(n, *each) for n, each in enumerate(drawn)), key=lambda job: job.submit)
    nodes = fewest_nodes(jobs, NODE, 0.0, 0.0)
    waited, end = waits(jobs, NODE, nodes)

    assert waited == [0.0] * len(jobs)
    assert end == max(job.submit + job.run_seconds for job in jobs)
    assert len(waits(jobs, NODE, 1)[0]) == len(jobs)


@pytest.mark.parametrize("name", ["sacct.json.gz", "sacct-all-columns.txt.gz", "sacct-named-columns.txt"])
def test_what_slurm_wrote_of_the_same_jobs_is_read_alike(name: str) -> None:
    """Seven jobs of Slurm 26.05: with a step, an array of three, on two nodes, failed, and cancelled while it ran.

    A job that was cancelled while it was pending, and an array that still is, are no work.
    """
    found = read(RECORDED / name, ReadOptions(zone=ZoneInfo("UTC")))
    jobs = [(job.nodes, job.cpus, job.memory_gib, job.limit_seconds, job.run_seconds) for job in found.trace.jobs]
    of_array = (1, 1, 300 / 1024, 300.0, 3.0)

    assert found.counts.bad == found.counts.assumed == {}
    assert found.counts.skipped["jobs that never started"] == 2
    assert sorted(jobs, key=str) == sorted(
        [
            (1, 2, 2.0, None, 5.0), of_array, of_array, of_array, (2, 1, 200 / 1024, 86400.0, 3.0),
            (1, 1, 1.0, 525600 * 60.0, 1.0), (1, 1, 1.0, 525600 * 60.0, 6.0),
        ],
        key=str,
    )  # fmt: skip
    assert {job.user for job in found.trace.jobs} == {"ada"}
    assert {job.waited for job in found.trace.jobs} == {0.0, 1.0}


def test_the_columns_that_sacct_prints_by_itself_do_not_suffice() -> None:
    with pytest.raises(CannotAdvise, match="no column for Submit, ElapsedRaw; try\n  sacct --allusers"):
        advise(Request(RECORDED / "sacct-default-columns.txt"))


def test_the_report_has_no_markup_of_the_input_and_nothing_from_elsewhere(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        *(row(str(n), User="<script>alert(1)</script>") for n in range(5)),
        row("8", ReqCPUS="900"),
        row("9", ReqTRES="cpu=1,gres/gpu:<b>=1,mem=1G"),
        row("10", ReqTRES="cpu=1,gres/gpu:h900=1,mem=1G"),
    )
    odd = path.rename(tmp_path / "<img src=x>&.txt")

    text = page(advise(Request(odd, fixed=("2x general-small",))))

    assert "<script" not in text
    assert "alert" not in text
    assert "<img" not in text
    assert not re.search(r"https?:|url\(|src=[^x]|@import|<link", text)
    assert "default-src 'none'" in text
    assert "h900" in text
    assert "more than 32 CPUs" in text


def test_advice_on_known_work(tmp_path: Path) -> None:
    """Two jobs of an hour on workers of 2 CPUs that boot for a minute."""
    found = advise(Request(written(tmp_path, row("1", ReqMem="1G"), row("2", ReqMem="1G", State="FAILED"))))

    assert found.jobs == 2
    assert found.cpu_hours == 4.0
    assert found.recorded_waits is not None
    assert found.recorded_waits.p95 == 600.0
    assert 2 * 0.0725 <= found.on_demand[0].usd <= 2 * 0.0725 * 1.2
    assert [each.name for each in found.fixed] == ["sized for the peak", "sized for the same waits (p95)"]


def test_a_sample_says_what_the_whole_costs(tmp_path: Path) -> None:
    if not WAGAP.exists():
        pytest.skip(f"{WAGAP} is absent")
    whole = advise(Request(WAGAP, policies=("first-fit",)))
    part = advise(Request(WAGAP, policies=("first-fit",), simulated=3000))

    assert whole.sampled.simulated == whole.jobs == 17_252
    assert part.sampled.simulated == 3000
    first, other = whole.on_demand[0], part.on_demand[0]
    assert abs(other.usd - first.usd) < max(3 * other.usd_margin, 0.1 * first.usd)


def test_the_shipped_catalogue_is_the_installations() -> None:
    shipped = ROOT / "planner-tools" / "src" / "clusterra_planner_tools" / "advise" / "shapes.yaml"
    assert shipped.read_bytes() == (ROOT / "catalog" / "shapes.yaml").read_bytes()
