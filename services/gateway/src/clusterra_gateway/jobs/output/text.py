"""Decodes the bytes of a growing file into text for Server-Sent Events, and knows the offset to resume from."""

import codecs
import io

MAX_EVENT_BYTES = 8192
"""Longer pieces are split, for clients that read lines into a buffer of fixed size."""


class OutputDecoder:
    """Turns bytes into text without ever splitting a character or a CR LF.

    Bytes that are not UTF-8 become U+FFFD. CR LF and CR become LF, because SSE cannot carry them.
    """

    def __init__(self, offset: int) -> None:
        self._read = offset
        self._decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)

    @property
    def read(self) -> int:
        """The offset of the first byte that was not added yet."""
        return self._read

    @property
    def offset(self) -> int:
        """The offset to resume from: of the first byte in no text yet, such as that of an unfinished character."""
        unfinished, pending_cr = self._decoder.getstate()
        return self._read - len(unfinished) - (pending_cr & 1)

    def add(self, data: bytes) -> list[tuple[str, int]]:
        """The texts that these bytes complete, each with the offset behind it."""
        texts = []
        for start in range(0, len(data), MAX_EVENT_BYTES):
            piece = data[start : start + MAX_EVENT_BYTES]
            text = self._decoder.decode(piece)
            self._read += len(piece)
            if text:
                texts.append((text, self.offset))
        return texts

    def finish(self) -> tuple[str, int] | None:
        """The text of the unfinished rest, when no more bytes will come, with the offset behind it."""
        text = self._decoder.decode(b"", final=True)
        return (text, self._read) if text else None
