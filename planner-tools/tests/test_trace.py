"""Both dialects of the Standard Workload Format, and lines that are not jobs."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from clusterra_planner_tools.simulate.trace import BadLine, BadPeriod, Job, TraceUnreadable, read
from trace_examples import plain, with_request, written


def jobs(folder: Path, *lines: str) -> list[Job]:
    return list(read(written(folder, *lines)[0]).jobs)


def test_a_trace_of_18_columns_is_read(tmp_path: Path) -> None:
    lines = ["; Version: 2.2", ";UnixStartTime: 1000000", "", plain(3, 50, 600, 8, limit=3600, kb=1024 * 1024)]

    trace = read(written(tmp_path, *lines)[0])

    assert trace.jobs == (Job(3, 50.0, 600.0, 3600.0, 1, 8, 8.0, "9"),)
    assert trace.starts_at == 1000000
    assert not trace.bad


@pytest.mark.parametrize(
    ("request_", "processors", "nodes", "cpus", "exclusive"),
    [
        ("1:ppn=64:x86_64:cl_zewura#excl", 64, 1, 64, True),
        ("8:ppn=8:x86_64:cl_zegox", 64, 8, 8, False),
        ("4", 12, 4, 3, False),
        ("4:x86_64", 13, 4, 4, False),
        ("zewura19.cerit-sc.cz:ppn=12:brno", 12, 1, 12, False),
        ("1:ppn=1.5:brno", 1, 1, 1, False),
        ("1:ppn=2#shared#excl", 2, 1, 2, True),
    ],
)
def test_the_request_in_column_21_gives_nodes_cpus_and_exclusiveness(
    tmp_path: Path, request_: str, processors: int, nodes: int, cpus: int, exclusive: bool
) -> None:
    (job,) = jobs(tmp_path, with_request(1, 0, 60, request_, 6.0, processors))
    assert (job.nodes, job.cpus, job.memory_gib, job.exclusive) == (nodes, cpus, 6.0, exclusive)


def test_missing_values_have_defaults(tmp_path: Path) -> None:
    used_only = "2 10 -1 60 4 -1 524288 -1 -1 -1 1 5 -1 -1 1 -1 -1 -1"
    short = "3 20 -1 60 4 -1 -1 -1 -1 -1"

    one, two, three = jobs(tmp_path, plain(1, 0, 60, 2), used_only, short)

    assert (one.limit_seconds, one.memory_gib) == (None, 0.0)
    assert (two.cpus, two.memory_gib) == (4, 2.0)
    assert (three.cpus, three.user) == (4, "-1")


def test_lines_that_are_not_jobs_are_reported(tmp_path: Path) -> None:
    lines = [
        "; header",
        plain(1, 0, -1, 4),
        "a few words",
        plain(2, 5, 60, 4),
        plain(2, 6, 60, 4),
        plain(3, 0, 60, 0),
        plain(4, -5, 60, 1),
        plain(5, 0, 60, 1).replace(" 60 ", " sixty "),
        plain(6, 0, 60, 1).replace(" 60 ", " nan "),
    ]

    trace = read(written(tmp_path, *lines)[0])

    assert [job.id for job in trace.jobs] == [2]
    assert trace.bad == (
        BadLine(2, "never ran: column 4 is negative"),
        BadLine(3, "has 3 of 18 columns"),
        BadLine(5, "job 2 is on an earlier line"),
        BadLine(6, "has no processors: columns 5 and 8"),
        BadLine(7, "was never submitted: column 2 is negative"),
        BadLine(8, "column 4 is 'sixty', not a number"),
        BadLine(9, "column 4 is nan, not a finite number"),
    )


def test_the_unit_of_the_memory_columns_can_be_given(tmp_path: Path) -> None:
    bytes_in_18 = plain(1, 0, 60, 4, kb=2**31)
    kb_in_21 = with_request(1, 0, 60, "2:ppn=4", 1 / 1024, 8)
    assert read(written(tmp_path, bytes_in_18)[0], "bytes-per-node").jobs[0].memory_gib == 2.0
    assert read(written(tmp_path, kb_in_21)[0], "kb-per-processor").jobs[0].memory_gib == 4.0


def test_big_jobs_can_be_spread_over_nodes(tmp_path: Path) -> None:
    trace, _ = written(tmp_path, plain(1, 0, 60, 100, kb=1024 * 1024), plain(2, 0, 60, 64))
    assert [(job.nodes, job.cpus) for job in read(trace).jobs] == [(1, 100), (1, 64)]
    spread = read(trace, node_cpus=64).jobs
    assert [(job.nodes, job.cpus, job.memory_gib) for job in spread] == [(2, 50, 50.0), (1, 64, 0.0)]


def test_a_trace_can_be_cut_by_fraction_and_by_date(tmp_path: Path) -> None:
    start = int(datetime(2013, 1, 1, tzinfo=UTC).timestamp())
    days = [plain(day, day * 86400, 60, 1) for day in range(11)]

    trace = read(written(tmp_path, f"; UnixStartTime: {start}", *days)[0])

    first, second = trace.halves()

    assert [job.id for job in first.jobs] == [0, 1, 2, 3, 4]
    assert [job.id for job in second.jobs] == [5, 6, 7, 8, 9, 10]
    assert [job.id for job in trace.between("2013-01-03", "2013-01-05").jobs] == [2, 3]
    assert [job.id for job in trace.between("0.9", "1").jobs] == [9, 10]
    assert trace.between(None, None) == trace


@pytest.mark.parametrize("period", [("1.5", None), ("soon", None), ("0.5", "0.5"), ("2019-01-01", None)])
def test_an_invalid_or_empty_period_is_an_error(tmp_path: Path, period: tuple[str, str | None]) -> None:
    trace = read(written(tmp_path, plain(1, 0, 60, 1), plain(2, 100, 60, 1))[0])
    with pytest.raises(BadPeriod):
        trace.between(*period)


def test_a_file_without_jobs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceUnreadable, match=r"missing\.swf: No such file"):
        read(tmp_path / "missing.swf")
    (tmp_path / "words.txt").write_text("shapes:\n  - nothing\n")
    with pytest.raises(TraceUnreadable, match=r"words\.txt: no line is a job \(line 1: has 1 of 18 columns\)"):
        read(tmp_path / "words.txt")
