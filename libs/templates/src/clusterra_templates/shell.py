"""Follows a shell script character by character, to know what a value would mean at each place.

It knows quotes, comments, here-documents, substitutions and arithmetic. Where it cannot be sure of the place, it says
so (`uncertain`), and only plain values may stand there. It never has to understand a command.
"""

import re
from dataclasses import dataclass, field
from typing import Literal

from clusterra_templates.problems import RenderRefused

Context = Literal["code", "group", "double", "single", "ansi", "backtick", "brace", "arithmetic", "comment"]
"""`group`: within `( )` or `$( )`. `brace`: within `${ }`. `ansi`: within `$' '`."""

DIRECTIVE = "#SBATCH"
MAX_COMMAND = 8192
"""How much of the command before a here-document is looked at. In a longer one, only plain values may stand."""
_MAX_WORD = 256
_READING = frozenset({"eval", "let", "trap", "ssh", "parallel", "awk", "gawk", "mawk", "sed"})
"""Commands that read their words as a program: quotes for one shell do not hold there."""
_INTERPRETER = re.compile(r"(?P<shell>(ba|da|z|k)?sh|su)|python[0-9.]*|perl|ruby|node|Rscript|julia|lua")
_PROGRAM_FOLLOWS = re.compile(r"-[A-Za-z]*[ce]")
_SEPARATORS = " \t;&|()<>"


@dataclass
class HereDocument:
    """A here-document whose lines follow."""

    delimiter: str
    literal: bool
    """Whether its delimiter is quoted, so that nothing in it is expanded."""
    tabs: bool
    """Whether leading tabs are removed (`<<-`)."""


@dataclass
class ShellState:
    """The place in a script after all that was fed so far."""

    stack: list[Context] = field(default_factory=lambda: ["code"])
    escaped: bool = False
    """Whether the last character was a backslash that takes the next one."""
    line_start: str = ""
    """The first characters of the line, without values."""
    line_has_value: bool = False
    at_word_start: bool = True
    word: str = ""
    """The word so far, without what is quoted."""
    reads_again: bool = False
    """Whether the command reads its words as a program."""
    interpreter: str = ""
    """`shell` or `other` once the command has named an interpreter."""
    testing: bool = False
    """Whether this is within `[[ ]]`, which may be arithmetic."""
    uncertain: bool = False
    pending: list[HereDocument] = field(default_factory=list)
    reading: HereDocument | None = None
    delimiter: str | None = None
    """The delimiter that is being read after `<<`, or None."""
    here_string: bool = False
    delimiter_quote: str = ""
    delimiter_quoted: bool = False
    substituting: bool = False
    """Whether the here-document has had a command substitution."""
    in_braces: bool = False
    """Whether the here-document is within `${ }`."""
    reader: str = ""
    """The command that the here-document belongs to."""
    previous: str = ""
    """The last character; empty at the start and after a character that begins nothing."""
    last_sign: str = ""
    """The last character that is no blank."""
    number: int = 1
    """The number of the line."""
    _command: list[str] = field(default_factory=list)
    _document_line: list[str] = field(default_factory=list)

    @property
    def command(self) -> str:
        """The logical line so far, without values: with those before it that a quote or a backslash continues."""
        return "".join(self._command)

    @property
    def context(self) -> Context:
        """The innermost context."""
        return self.stack[-1]

    @property
    def in_directive(self) -> bool:
        """Whether this is within an `#SBATCH` line."""
        return self.context == "comment" and self.line_start.startswith(DIRECTIVE)

    def feed(self, text: str, *, of_value: bool = False) -> None:
        """Goes on over text. Raises RenderRefused where a value has made the end of a here-document."""
        for character in text:
            escaped = self.escaped
            self._feed(character, of_value=of_value)
            # `$$` is a parameter of its own, and an escaped character begins nothing.
            if character not in " \t":
                self.last_sign = character
            self.previous = "" if escaped or (character == "$" and self.previous == "$") else character

    def _feed(self, character: str, *, of_value: bool) -> None:
        if of_value:
            self.line_has_value = True
        if self.reading is not None:
            self._in_document(self.reading, character, of_value=of_value)
            return
        if self.delimiter is not None and self._in_delimiter(character):
            return
        if character != "<":
            self.here_string = False
        _STEPS[self.context](self, character)
        if not of_value:
            self._written(character)
        if character == "\n":
            self._line_ends()

    def _written(self, character: str) -> None:
        if len(self.line_start) < len(DIRECTIVE):
            self.line_start += character
        if len(self._command) < MAX_COMMAND:
            self._command.append(character)

    def _line_ends(self) -> None:
        self.number += 1
        self.line_start, self.line_has_value = "", False
        if self.pending and self.context in ("code", "group"):
            self.reading = self.pending.pop(0)
            self.reader, self.substituting, self.in_braces = self.command, False, False
        if self.context in ("code", "group") and self.previous != "\\":
            self._command.clear()
            self.reads_again, self.interpreter, self.testing = False, "", False

    def _in_document(self, document: HereDocument, character: str, *, of_value: bool) -> None:
        if character != "\n":
            self._document_line.append(character)
            if not of_value:
                self.substituting |= character == "`" or (character == "(" and self.previous == "$")
                self.in_braces = (self.in_braces and character != "}") or (character == "{" and self.previous == "$")
            return
        line = "".join(self._document_line)
        self._document_line.clear()
        if document.tabs:
            line = line.lstrip("\t")
        if line == document.delimiter:
            if self.line_has_value:
                raise RenderRefused(
                    f"line {self.number}: a value makes the line {document.delimiter}, which ends the text that it "
                    "stands in: change the value"
                )
            self.reading = self.pending.pop(0) if self.pending else None
            self.substituting, self.in_braces = False, False
            self.at_word_start, self.word = True, ""
        self.line_has_value = of_value
        self.number += 1

    def _in_delimiter(self, character: str) -> bool:
        """Reads on in the delimiter of a here-document. Returns whether the character belongs to it."""
        assert self.delimiter is not None  # noqa: S101 - the caller has looked
        if character == "<" and self.previous == "<" and not self.delimiter:
            self.delimiter, self.here_string = None, True  # `<<<` is followed by a word
            return False
        if self.delimiter_quote:
            if character == self.delimiter_quote:
                self.delimiter_quote = ""
            else:
                self.delimiter += character
        elif character in "'\"":
            self.delimiter_quote, self.delimiter_quoted = character, True
        elif character == "\\":
            self.delimiter_quoted = True
        elif character in " \t" and self.delimiter in ("", "-"):
            pass
        elif character in _SEPARATORS + "\n":
            word = self.delimiter.removeprefix("-")
            if word:
                self.pending.append(HereDocument(word, self.delimiter_quoted, self.delimiter.startswith("-")))
            else:
                self.uncertain = True
            self.delimiter, self.delimiter_quoted = None, False
            return False
        else:
            self.delimiter += character
        self._written(character)
        return True

    def in_code(self, character: str) -> None:
        """Unquoted text of commands."""
        if self.escaped:
            self.escaped = False
            if character != "\n":
                self.at_word_start = False
            return
        match character:
            case "\\":
                self.escaped = True
            case "'":
                self._note_word()
                self.stack.append("ansi" if self.previous == "$" else "single")
                self.at_word_start = False
            case '"':
                self._note_word()
                self.stack.append("double")
                self.at_word_start = False
            case "`":
                self.stack.append("backtick")
                self.at_word_start = False
            case "{" if self.previous == "$":
                self.stack.append("brace")
            case "#" if self.at_word_start:
                self.stack.append("comment")
            case "(":
                self._opens()
            case ")":
                self._closes()
            case "<" if self.previous == "<" and not self.here_string:
                self._word_ends()
                self.delimiter = ""
            case "\n" | " " | "\t" | ";" | "&" | "|" | ">" | "<":
                self._word_ends()
            case _:
                self.at_word_start = False
                self.word = (self.word + character)[:_MAX_WORD]

    def _word_ends(self) -> None:
        if self.word == "case" and len(self.stack) > 1:
            # The ) of a pattern looks like the end of the group.
            self.uncertain = True
        self._note_word()
        self.word, self.at_word_start = "", True

    def _note_word(self) -> None:
        """Looks at the word so far, when it ends or before a quote in it."""
        name = self.word.rpartition("/")[2]
        if not name:
            return
        if name in _READING:
            self.reads_again = True
        elif self.interpreter and _PROGRAM_FOLLOWS.fullmatch(name):
            self.reads_again |= name.endswith("c") or self.interpreter == "other"
        elif found := _INTERPRETER.fullmatch(name):
            self.interpreter = "shell" if found["shell"] else "other"
        elif name in ("[[", "]]"):
            self.testing = name == "[["

    def _opens(self) -> None:
        self._word_ends()
        if self.previous == "(" and self.context == "group":
            self.stack[-1] = "arithmetic"
            self.stack.append("arithmetic")
        else:
            self.stack.append("group")

    def _closes(self) -> None:
        self._word_ends()
        if self.context == "group":
            self.stack.pop()
            self.at_word_start = False

    def in_double(self, character: str) -> None:
        """Within double quotes."""
        if self.escaped:
            self.escaped = False
        elif character == "\\":
            self.escaped = True
        elif character == '"':
            self.stack.pop()
        elif character == "`":
            self.stack.append("backtick")
        elif character in "({" and self.previous == "$":
            self.stack.append("group" if character == "(" else "brace")
            self.word, self.at_word_start = "", character == "("

    def in_single(self, character: str) -> None:
        """Within single quotes."""
        if character == "'":
            self.stack.pop()

    def in_ansi(self, character: str) -> None:
        """Within `$' '`."""
        if self.escaped:
            self.escaped = False
        elif character == "\\":
            self.escaped = True
        elif character == "'":
            self.stack.pop()

    def in_backtick(self, character: str) -> None:
        """Within backticks."""
        if self.escaped:
            self.escaped = False
        elif character == "\\":
            self.escaped = True
        elif character == "`":
            self.stack.pop()

    def in_brace(self, character: str) -> None:
        """Within `${ }`."""
        if self.escaped:
            self.escaped = False
        elif character == "\\":
            self.escaped = True
        elif character == "}":
            self.stack.pop()
        elif character == '"':
            self.stack.append("double")
        elif character == "'" and "double" not in self.stack:
            self.stack.append("single")
        elif character == "`":
            self.stack.append("backtick")
        elif character in "({" and self.previous == "$":
            self.stack.append("group" if character == "(" else "brace")

    def in_arithmetic(self, character: str) -> None:
        """Within `(( ))` or `$(( ))`."""
        if character == "(":
            self.stack.append("arithmetic")
        elif character == ")":
            self.stack.pop()
        elif character in "'\"`\\":
            self.uncertain = True

    def in_comment(self, character: str) -> None:
        """Within a comment."""
        if character == "\n":
            self.stack.pop()
            self._word_ends()


_STEPS = {
    "code": ShellState.in_code,
    "group": ShellState.in_code,
    "double": ShellState.in_double,
    "single": ShellState.in_single,
    "ansi": ShellState.in_ansi,
    "backtick": ShellState.in_backtick,
    "brace": ShellState.in_brace,
    "arithmetic": ShellState.in_arithmetic,
    "comment": ShellState.in_comment,
}
