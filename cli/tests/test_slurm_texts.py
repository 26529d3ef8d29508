"""Times, sizes, lists of nodes, states and columns as Slurm's commands write and read them."""

import time
from collections.abc import Iterator

import pytest
from clusterra_cli.slurm_commands.failures import CommandFailed
from clusterra_cli.slurm_commands.notation import sizes, states, times
from clusterra_cli.slurm_commands.notation.columns import Field, NoField, by_letters, by_names, lines
from clusterra_cli.slurm_commands.notation.hostlists import BadHostlist, compressed, expanded
from clusterra_cli.slurm_commands.notation.job_updates import changes, minutes
from clusterra_cli.slurm_commands.notation.sized_tables import SizedColumn
from clusterra_cli.slurm_commands.reads.queue import task_numbers
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("seconds", "short", "full"),
    [
        (5, "0:05", "00:00:05"),
        (65, "1:05", "00:01:05"),
        (3723, "1:02:03", "01:02:03"),
        (2 * 86400, "2-00:00:00", "2-00:00:00"),
        (93784, "1-02:03:04", "1-02:03:04"),
        (400 * 86400, "INVALID", "400-00:00:00"),
    ],
)
def test_spans(seconds: int, short: str, full: str) -> None:
    assert (times.span(seconds), times.full_span(seconds)) == (short, full)


@pytest.mark.parametrize(
    ("microseconds", "shown"),
    [(0, "00:00:00"), (14514, "00:00.014"), (61_234_567, "01:01.234"), (3_723_000_000, "01:02:03")],
)
def test_cpu_times(microseconds: int, shown: str) -> None:
    assert times.precise_span(microseconds) == shown


NOW = 1_795_733_052  # 2026-11-26T22:44:12Z


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("now", "2026-11-26T22:44:12"),
        ("now-2hours", "2026-11-26T20:44:12"),
        ("now+1day", "2026-11-27T22:44:12"),
        ("now-30", "2026-11-26T22:43:42"),
        ("now-5min", "2026-11-26T22:39:12"),
        ("midnight", "2026-11-26T00:00:00"),
        ("yesterday", "2026-11-25T00:00:00"),
        ("2026-11-24T09:00", "2026-11-24T09:00:00"),
        ("2026-11-24", "2026-11-24T00:00:00"),
        ("12:30", "2026-11-26T12:30:00"),
        ("11/02/26", "2026-11-02T00:00:00"),
        ("1102", "2026-11-02T00:00:00"),
        ("now-5parsecs", None),
        ("soon", None),
    ],
)
def test_moments_that_people_write(text: str, shown: str | None) -> None:
    found = times.read_moment(text, NOW)

    assert (None if found is None else times.moment(found)) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [("90", 90), ("90:30", 91), ("51:00:00", 3060), ("1-2", 1560), ("0-1:2:3", 63), ("0:86400", 1440), ("soon", None)],
)
def test_time_limits(text: str, shown: int | None) -> None:
    if shown is None:
        with pytest.raises(Exception, match="soon"):
            minutes(text)
    else:
        assert minutes(text) == shown


@pytest.mark.parametrize(
    ("mebibytes", "shown"), [(300, "300M"), (1024, "1G"), (1536, "1536M"), (2 * 1024**2, "2T"), (0, "0M")]
)
def test_sizes(mebibytes: int, shown: str) -> None:
    assert sizes.mebibytes(mebibytes) == shown


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n[1-3,07-09],b", ["n1", "n2", "n3", "n07", "n08", "n09", "b"]),
        ("a[1-2]b[3,4]", ["a1b3", "a1b4", "a2b3", "a2b4"]),
        ("", []),
    ],
)
def test_lists_of_nodes_are_expanded(text: str, names: list[str]) -> None:
    assert expanded(text) == names


@pytest.mark.parametrize("text", ["n[1-", "n[x]", "n[3-1]", "n[1-99999999]"])
def test_a_bad_list_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(BadHostlist):
        expanded(text)


@given(
    st.lists(st.builds("{}{:0{}}".format, st.sampled_from("ab"), st.integers(0, 40), st.integers(1, 3)), unique=True)
)
def test_a_compressed_list_names_the_same_nodes(names: list[str]) -> None:
    assert sorted(expanded(compressed(names))) == sorted(names)


@given(st.lists(st.sampled_from([*states.SHORT, *states.SHORT_FLAGS]), min_size=1, max_size=4))
def test_a_state_has_one_known_name(found: list[str]) -> None:
    shown = states.shown(found)

    assert states.named(states.short(shown)) == states.named(shown) == shown


def test_flags_hide_the_base_state() -> None:
    assert states.shown(["RUNNING", "COMPLETING"]) == "COMPLETING"
    assert states.shown(["PENDING", "REQUEUED"]) == "REQUEUED"
    assert states.shown(["FAILED"]) == "FAILED"


def test_task_numbers() -> None:
    assert task_numbers("1-9:4,12%2") == [1, 5, 9, 12]
    assert task_numbers("1,2,...") == [1, 2]


FIELDS = {"i": Field[str]("JOBID", str, cut=False), "j": Field[str]("NAME", str.upper)}


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("%i", ["JOBID", "abcdefgh"]),
        ("%.5j|%-3j", ["NAME|%-3j".rjust(10), "ABCDE|%-3j"]),
        ("%4i<%10j>", ["JOBI<NAME      >", "abcdefgh<ABCDEFGH  >"]),
        ("x%.10j %z", ["x      NAME %z", "x  ABCDEFGH %z"]),
    ],
)
def test_columns_by_letters(form: str, shown: list[str]) -> None:
    assert lines(by_letters(form, FIELDS), ["abcdefgh"], header=True) == shown


def test_columns_by_names_are_20_wide_and_cut() -> None:
    named = {"JobID": FIELDS["i"], "Name": FIELDS["j"]}

    assert lines(by_names("jobid,NAME:.4,name:6!", named), ["abcdefgh"], header=True) == [
        f"{'JOBID':<20}NAMENAME  !",
        f"{'abcdefgh':<20}ABCDABCDEF!",
    ]
    with pytest.raises(NoField):
        by_names("nothing", named)


@pytest.mark.parametrize(
    ("width", "value", "shown"),
    [(10, "CANCELLED by 1", "CANCELLED+"), (-6, "12", "12    "), (6, "12", "    12"), (3, "abc", "abc")],
)
def test_a_cut_value_of_sacct_ends_with_a_plus(width: int, value: str, shown: str) -> None:
    assert SizedColumn("State", width).cell(value) == shown


def test_updates_of_jobs() -> None:
    ids, fields = changes(["JobId=5,6", "TimeLimit=1:00:00", "name=x=y", "Requeue=no", "MinMemoryNode=2G"])

    assert ids == ("5", "6")
    assert fields == {"time_limit": 60, "name": "x=y", "requeue": False, "memory_per_node": 2048}
    with pytest.raises(CommandFailed, match="Update of this parameter is not supported: Foo=1"):
        changes(["JobId=5", "Foo=1"])
    with pytest.raises(CommandFailed, match="JobId"):
        changes(["TimeLimit=5"])
