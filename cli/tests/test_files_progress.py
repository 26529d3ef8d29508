"""The bar of a copy: on a terminal alone, one line that fits, and true at its end."""

import io
import sys

import pytest
from clusterra.files.progress import SILENT
from clusterra_cli.commands.files.progress import shown_progress


class Terminal(io.StringIO):
    """What a terminal would get."""

    def isatty(self) -> bool:
        return True


def test_a_bar_is_drawn_in_one_line_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)

    with shown_progress(quiet=False) as progress:
        progress.planned(2, 3 * 1024 * 1024)
        for _ in range(3):
            progress.moved(1024 * 1024)
        progress.moved(-1024 * 1024)
        progress.moved(1024 * 1024)
        progress.finished("data/x")

    *lines, after = shown.getvalue().split("\r")[-1].split("\n")
    assert (len(lines), after) == (1, "")
    assert all(len(line) <= 79 for line in shown.getvalue().split("\r"))
    assert lines[0].startswith("[########################] 3.0 MiB of 3.0 MiB")
    assert "1/2 files" in lines[0]


@pytest.mark.parametrize(("stream", "quiet"), [(io.StringIO(), False), (Terminal(), True)])
def test_elsewhere_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, quiet: bool) -> None:
    monkeypatch.setattr(sys, "stderr", stream)

    with shown_progress(quiet=quiet) as progress:
        assert progress is SILENT

    assert stream.getvalue() == ""
