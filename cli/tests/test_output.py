"""What reaches a terminal."""

import io
import json
import sys

import pytest
from clusterra_cli.output import Column, JobText, Output, duration, money, one_line, visible


class Terminal(io.StringIO):
    """A stdout that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode\ttab\n", "plain ünïcode\ttab\n"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x07\x9b", "\\x07\\x9b"),
        ("abc\u202egpj", "abc\\u202egpj"),
        ("\ud800", "\\ud800"),
    ],
)
def test_control_characters_are_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_cell_has_one_line() -> None:
    assert one_line("a\nb\tc") == "a\\nb\\tc"


def test_a_table_on_a_pipe_cuts_nothing_off(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300

    Output().table([Column("NAME"), Column("N", right=True)], [["[red]a", 1], [long, 22]])

    told = capsys.readouterr().out
    assert told.splitlines() == [f"NAME{' ' * 298} N", f"[red]a{' ' * 296} 1", f"{long}  22"]
    assert "\x1b" not in told


def test_a_table_fits_its_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")

    Output().table([Column("NAME"), Column("STATE")], [["x" * 300, "RUNNING"]])

    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert "…" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


def test_a_jobs_output_keeps_its_colours_on_a_terminal_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    text = JobText()

    for part in ("\x1b[3", "1mred\x1b[0m\r50 %\x1b]0;title\x07", "\x1b"):
        text.write(part)
    text.end()

    assert terminal.getvalue() == "\x1b[31mred\x1b[0m\r50 %\\x1b]0;title\\x07\\x1b"


def test_a_jobs_output_is_unchanged_on_a_pipe(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    text = JobText()

    text.write_bytes(b"\x1b]0;title\x07\xff\r\n")
    text.end()
    sys.stdout.flush()

    assert capsysbinary.readouterr().out == b"\x1b]0;title\x07\xff\r\n"


def test_durations_are_slurms() -> None:
    assert [duration(each) for each in (None, 0, 3661, 90061)] == ["", "00:00:00", "01:01:01", "1-01:01:01"]


def test_small_amounts_have_more_places() -> None:
    assert [money(each) for each in (None, "0.012345", 1234.5)] == ["", "$0.0123", "$1,234.50"]


def test_json_has_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    Output(json=True).document({"name": "\x9b2J\u202e\x7f\x1b"})

    shown = capsys.readouterr().out
    assert shown.isascii()
    assert json.loads(shown) == {"name": "\x9b2J\u202e\x7f\x1b"}
