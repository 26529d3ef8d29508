"""What the doctor prints for people: no text of a tenant's server commands the terminal, or looks like a finding."""

from clusterra_admin.doctor.finding import Report, failure
from clusterra_admin.doctor.output import lines
from clusterra_contracts.identity import now


def test_a_text_from_outside_stays_in_its_line_and_commands_no_terminal() -> None:
    said = "no\x1b]0;title\x07\x1b[2J\n  ok     clusters.slurm rival/main: Slurm 26.05\r\u202e"
    finding = failure("clusters.slurm", said, "look into\nslurmrestd's log", about="acme/main")
    report = Report(
        version="1",
        checked_at=now(),
        seconds=1.0,
        summary={"failure": 1, "warning": 0, "ok": 0, "skipped": 0},
        findings=(finding,),
    )

    printed = [line for line in lines(report) if "acme/main" in line or "rival/main" in line or "look into" in line]

    assert len(printed) == 2
    assert all(each not in "".join(printed) for each in ("\n", "\r", "\x07", "\x1b]", "\x1b[2J", "\u202e"))
