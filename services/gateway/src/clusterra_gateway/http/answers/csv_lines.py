"""Writes lines of tables as CSV (RFC 4180)."""

import csv
import io
from collections.abc import Iterable


def csv_lines(rows: Iterable[Iterable[str]]) -> bytes:
    """Write rows of cells as lines of a table."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(map(_cell, row) for row in rows)
    return text.getvalue().encode()


def _cell(value: str) -> str:
    """A spreadsheet takes a text with such a beginning for a formula. Job names are free text."""
    return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
