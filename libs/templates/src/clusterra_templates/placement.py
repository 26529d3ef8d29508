"""Writes values into a script so that each stays one value, whatever it holds.

Unquoted text gets shell quotes, quoted text gets backslashes, a here-document stays as it is. Where no quoting could
help - `#SBATCH` lines, arithmetic, text that a second shell reads - a value must be plain. So a value makes no command,
no word and no `#SBATCH` line beyond those that the author has written.
"""

import json
import re
from collections.abc import Sequence

from clusterra_templates.pieces import Piece, Placed, RenderBounds, Text, joined
from clusterra_templates.problems import RenderRefused
from clusterra_templates.shell import DIRECTIVE, MAX_COMMAND, ShellState

INTERPRETERS = re.compile(r"#! ?(/usr)?/bin/(env )?(bash|sh|dash)( -[a-z]+)*$")
"""The first lines of scripts that values can be placed in."""

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,-]*")
_PLAIN_DIRECTIVE = re.compile(r"[A-Za-z0-9_./:@%+,=-]*")
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_KEYWORDS = frozenset(
    (
        *("if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "in"),
        *("function", "select", "time", "coproc", "{", "}", "!", "[[", "]]"),
    )
)
_READS_PROGRAM = re.compile(r"(^|[\s;&|(/])((ba|da|z|k)?sh|perl|ruby|Rscript|R|julia|lua)(\s|$)")
_READS_JSON_PROGRAM = re.compile(r"(^|[\s;&|(/])(python[0-9.]*|node)(\s|$)")
"""Programs in whose language a JSON string is the same string."""


def placed(pieces: Sequence[Piece], bounds: RenderBounds) -> str:
    """The script of the pieces. Raises RenderRefused for a value that cannot stand at its place."""
    state, written = ShellState(), list[str]()
    for index, piece in enumerate(pieces):
        bounds.step()
        if isinstance(piece, Text):
            written.append(bounds.write(piece.text))
            state.feed(piece.text)
            continue
        if _CONTROL.search(piece.text):
            raise _refused(state, piece, "it has a control character", "remove it")
        text = _encoded(state, piece, _next(pieces, index))
        before = (tuple(state.stack), state.reading, state.delimiter, state.uncertain, len(state.pending))
        state.feed(text, of_value=True)
        if before != (tuple(state.stack), state.reading, state.delimiter, state.uncertain, len(state.pending)):
            raise _refused(state, piece, "it would change the meaning of the script around it", "use plain characters")
        written.append(bounds.write(text))
    return "".join(written)


def configuration(pieces: Sequence[Piece]) -> str:
    """The text of a file that is itself a program, such as a configuration of Nextflow, which is Groovy.

    Raises RenderRefused for a value that could become code there.
    """
    for piece in pieces:
        if isinstance(piece, Placed) and not piece.authored and not _PLAIN.fullmatch(piece.text):
            raise RenderRefused(
                f"the value {_short(piece)!r} cannot stand in `config`, which is a program: use letters, digits and "
                "_./:@%+,- only"
            )
    return joined(pieces)


def _next(pieces: Sequence[Piece], index: int) -> str:
    """The first character after a value; empty at the end."""
    return next((piece.text[0] for piece in pieces[index + 1 :] if piece.text), "")


def _encoded(state: ShellState, piece: Placed, following: str) -> str:
    value = piece.text
    if state.reading is not None:
        return _in_document(state, piece)
    if state.escaped or state.previous == "$":
        raise _refused(
            state, piece, f"a {'backslash' if state.escaped else '$'} stands before it", "put it into quotes"
        )
    if state.delimiter is not None:
        raise _refused(state, piece, "it names the end of a here-document", "write that name in the template itself")
    if state.in_directive or state.number == 1:
        return _plain(state, piece, _PLAIN_DIRECTIVE, "letters, digits and _./:@%+,=-")
    if state.context == "comment":
        if "\n" in value or (state.line_start and DIRECTIVE.startswith(state.line_start)):
            raise _refused(state, piece, "it stands in a comment and does not stay there", "give one line")
        return value
    if state.context == "arithmetic":
        return _plain(state, piece, _NUMBER, "digits: it stands in arithmetic")
    read_as_program = state.reads_again and not piece.authored
    if state.uncertain or read_as_program or state.testing or state.context in ("backtick", "ansi", "brace"):
        return _plain(state, piece, _PLAIN, "letters, digits and _./:@%+,-: its text is read as a program here")
    match state.context:
        case "double":
            return re.sub(r'([\\"$`])', r"\\\1", value)
        case "single":
            return value.replace("'", "'\\''")
        case _:
            return _word(state, piece, following)


def _word(state: ShellState, piece: Placed, following: str) -> str:
    """A value in unquoted text."""
    value = piece.text
    if not value:
        alone = state.previous in (" ", "\t") and following in ("", " ", "\t", "\n")
        behind_word = state.last_sign not in ("", "<", ">", "|", "&", ";", "(", "\n", "\\")
        return "" if piece.vanishes and alone and behind_word else "''"
    if _PLAIN.fullmatch(value) and value not in _KEYWORDS and following not in ("<", ">", "("):
        return value
    return "'" + value.replace("'", "'\"'\"'") + "'"


def _in_document(state: ShellState, piece: Placed) -> str:
    assert state.reading is not None  # noqa: S101 - the caller has looked
    value = json.dumps(piece.text, ensure_ascii=False)[1:-1] if piece.escaped else piece.text
    if (
        len(state.reader) >= MAX_COMMAND
        or _READS_PROGRAM.search(state.reader)
        or (_READS_JSON_PROGRAM.search(state.reader) and not (piece.escaped or piece.is_json))
    ):
        return _plain(
            state, piece, _PLAIN, "letters, digits and _./:@%+,-: it stands in a program (pass it as an argument)"
        )
    if state.reading.literal:
        return value
    if state.previous == "\\":
        raise _refused(state, piece, "a backslash stands before it", "remove the backslash from the template")
    if state.substituting or state.in_braces:
        return _plain(state, piece, _PLAIN, "letters, digits and _./:@%+,-: the text around it has substitutions")
    return re.sub(r"([\\$`])", r"\\\1", value)


def _plain(state: ShellState, piece: Placed, allowed: re.Pattern[str], which: str) -> str:
    if not allowed.fullmatch(piece.text):
        raise _refused(state, piece, f"only {which}", "use these characters only")
    return piece.text


def _refused(state: ShellState, piece: Placed, reason: str, hint: str) -> RenderRefused:
    return RenderRefused(
        f"line {state.number} of the script: the value {_short(piece)!r} cannot stand there: {reason}; {hint}"
    )


def _short(piece: Placed) -> str:
    return piece.text if len(piece.text) <= 60 else f"{piece.text[:60]}..."
