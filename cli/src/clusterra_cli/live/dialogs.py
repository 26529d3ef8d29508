"""The small windows: a question that is answered with y or n, a line of text, and the keys."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

_BOX = """
    align: center middle;
    & > Vertical { width: auto; max-width: 100%; height: auto; max-height: 100%; border: solid; padding: 0 1; }
    & Static { width: auto; max-width: 74; }
    & Input { width: 40; }
"""


class Question(ModalScreen[bool]):
    """A question. Nothing but `y` is a yes."""

    DEFAULT_CSS = f"Question {{ {_BOX} }}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,enter,q", "answer(False)", "no"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """The question, and how to answer it."""
        with Vertical():
            yield Static(Text(self._question))
            yield Static(Text("\ny yes   n no"))

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)


class Line(ModalScreen[str | None]):
    """A line of text; None where it was left with Escape."""

    DEFAULT_CSS = f"Line {{ {_BOX} }}"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave")]

    def __init__(self, title: str, value: str) -> None:
        super().__init__()
        self._title = title
        self._value = value

    def compose(self) -> ComposeResult:
        """The title, and the line."""
        with Vertical():
            yield Static(Text(self._title))
            yield Input(self._value, max_length=64)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close with the line."""
        self.dismiss(event.value.strip())

    def action_leave(self) -> None:
        """Close without a line."""
        self.dismiss(None)


KEYS = """\
up down pgup pgdn home end   choose a job
Enter   the job: its record, why it waits, where it runs
l       the last lines of its output, and what follows
c h r   cancel it (after a question), hold it, release it
s S     the next order; the other way round
t u m   filter by state, by user, only mine
? q     these keys; the end

The costs of running jobs are computed from the prices of
their workers until the ledger has them."""


class Help(ModalScreen[None]):
    """The keys."""

    DEFAULT_CSS = f"Help {{ {_BOX} }}"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q,question_mark", "leave", "leave")]

    def compose(self) -> ComposeResult:
        """The keys."""
        with Vertical():
            yield Static(Text(KEYS))

    def action_leave(self) -> None:
        """Close it."""
        self.dismiss()
