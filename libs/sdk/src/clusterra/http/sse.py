"""Server-Sent Events out of bytes, however these are cut.

Lines end at LF, CR LF or CR alone, as the standard says. Pings, which are comments, are no events: whoever reads a
stream sees them as bytes that complete none.
"""

from dataclasses import dataclass

MAX_EVENT_BYTES = 4 * 1024 * 1024
"""The longest event. The gateway's are far shorter."""


class EventTooLong(ValueError):
    """An event has no end within MAX_EVENT_BYTES."""


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event of a stream."""

    data: str
    event: str
    """`message` where the stream names none."""
    id: str | None
    """The last id that the stream has given; None before it gave one."""


class EventParser:
    """Turns the bytes of one stream into its events."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._after_cr = False
        self._size = 0
        self._data: list[str] = []
        self._event = ""
        self._id: str | None = None

    def add(self, data: bytes) -> list[ServerSentEvent]:
        """The events that these bytes complete. Raises EventTooLong."""
        found = []
        if self._after_cr and data[:1] == b"\n":
            data, self._after_cr = data[1:], False
        if data:
            self._after_cr = False
        for part in data.splitlines(keepends=True):  # of bytes: at LF, CR LF and CR only
            self._rest += part
            if not part.endswith((b"\n", b"\r")):
                self._after_cr = False
                break
            self._after_cr = part.endswith(b"\r")
            line = bytes(self._rest).rstrip(b"\r\n").decode(errors="replace")
            self._rest.clear()
            if (event := self._take(line)) is not None:
                found.append(event)
        if self._size + len(self._rest) > MAX_EVENT_BYTES:
            raise EventTooLong(f"an event of the stream is longer than {MAX_EVENT_BYTES} bytes")
        return found

    def _take(self, line: str) -> ServerSentEvent | None:
        if not line:
            return self._dispatch()
        if line.startswith(":"):
            return None
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        self._size += len(line)
        match name:
            case "data":
                self._data.append(value)
            case "event":
                self._event = value
            case "id" if "\0" not in value:
                self._id = value
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        data, event = self._data, self._event
        self._data, self._event, self._size = [], "", 0
        return ServerSentEvent("\n".join(data), event or "message", self._id) if data else None
