"""`clusterra advise` as a process: it needs neither a gateway nor a sign-in."""

import sys
from pathlib import Path

import pytest
from command_line import CommandLine

ROWS = """\
JobID|User|State|Submit|Start|End|ElapsedRaw|NNodes|ReqCPUS|ReqMem
1|ada|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T01:01:00|3600|1|2|2G
1.batch|ada|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T01:01:00|3600|1|2|
2|\x1b[31mada|COMPLETED|soon|2026-01-01T00:01:00|2026-01-01T01:01:00|3600|1|2|2G
"""


@pytest.fixture
def nobody(tmp_path: Path) -> CommandLine:
    (tmp_path / "jobs.txt").write_text(ROWS)
    return CommandLine(tmp_path)


async def test_it_prints_costs_and_writes_the_report(nobody: CommandLine) -> None:
    ran = await nobody("advise", "jobs.txt", "--html", "report.html", "--fixed", "1xcompute-xs")

    assert ran.code == 0, ran
    assert ran.out.startswith("On demand this work costs $")
    assert "fixed, as given: 1×compute-xs" in ran.out
    assert "bad records: submit: not a value of Slurm's (the first is record 3)" in ran.out
    assert "ada" not in ran.out + (nobody.home / "report.html").read_text()
    assert "the report is in report.html" in ran.err


async def test_json_and_quiet_and_standard_input(nobody: CommandLine) -> None:
    found = (await nobody("advise", "-", "--json", "--policy", "first-fit", stdin=ROWS)).json
    cost = await nobody("advise", "jobs.txt", "--quiet", "--policy", "first-fit")

    assert found["jobs"] == 1
    assert [each["policy"] for each in found["on_demand"]] == ["first-fit"]
    assert (cost.out, cost.err) == (f"{found['on_demand'][0]['usd']:.2f}\n", "")


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("missing.txt",), 1, "missing.txt: No such file"),
        (("jobs.txt", "--policy", "none"), 2, "'none' is no policy"),
        (("jobs.txt", "--fixed", "many"), 1, "give NODES×SHAPE"),
        (("jobs.txt", "--time-zone", "../etc/passwd"), 2, "no time zone"),
        (("jobs.txt", "--html", "missing/report.html"), 1, "missing/report.html: No such file"),
    ],
)
async def test_what_is_wrong_is_said(nobody: CommandLine, arguments: tuple[str, ...], code: int, error: str) -> None:
    ran = await nobody("advise", *arguments)
    assert (ran.code, error in ran.err) == (code, True), ran


async def test_without_the_extra_it_says_how_to_install_it(nobody: CommandLine) -> None:
    blocked = nobody.home / "sitecustomize.py"
    blocked.write_text("import sys\nsys.modules['clusterra_planner_tools'] = None\n")
    ran = await nobody.having(PYTHONPATH=str(nobody.home))("advise", "jobs.txt")

    assert ran.code == 1, sys.version
    assert "uv tool install './cli[advise]'" in ran.err
