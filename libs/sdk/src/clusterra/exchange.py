"""Sans-I/O: what an operation asks of its transport, and what it is answered. Nothing here reads or writes.

An operation is a generator of steps. The sync and the async client carry out the same steps, each with its own
transport, so that everything that decides (retries, pages, resumed streams) is written once, and tested without a
server.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, cast

type Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
type Query = Mapping[str, str | Sequence[str]]

TRYING_SECONDS = 30.0
"""For how long a request that fails is tried again."""
MAX_BODY_BYTES = 64 * 1024 * 1024
"""The largest answer that is kept in memory. Outputs that are longer are followed, or read from their end."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the API."""

    method: Method
    path: str
    """From `/v1` on."""
    query: Query = MappingProxyType({})
    """A list is sent with commas between its values. An empty one is not sent."""
    body: object = None
    """None for no body, bytes as they are, and everything else as JSON."""
    headers: Mapping[str, str] = MappingProxyType({})
    idempotency_key: str | None = None
    """With a key the request may be sent again without a second effect."""
    deadline_seconds: float = TRYING_SECONDS
    answer_seconds: float | None = None
    """The longest silence before and within the answer, where it is to be shorter than the client's own timeout."""
    repeatable: bool = False
    """Whether sending a change again without a key does no harm. Reads are repeatable without saying so."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request, whatever its status. The body of a stream is empty here: it is read piece by piece."""

    status: int
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes = b""

    @property
    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        import json

        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Failure:
    """No answer, or not all of it."""

    error: str
    """What happened, for people."""
    sent: bool = True
    """Whether the request may have reached the gateway. False where no connection could be made."""


@dataclass(frozen=True, slots=True)
class Retrying:
    """A request that was not answered well is sent again after a pause."""

    reason: str
    """What went wrong, for people, such as `the gateway does not answer`."""
    tried_seconds: float
    """The time since the first attempt."""
    pause_seconds: float
    """The time until the next attempt."""
    left_seconds: float | None
    """For how long attempts go on; None where they go on until the caller stops."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float
    retrying: Retrying | None = None
    """Where the pause is one between two attempts."""


@dataclass(frozen=True, slots=True)
class Now:
    """Ask for the seconds on a monotonic clock."""


@dataclass(frozen=True, slots=True)
class Open:
    """Begin to read a stream, in place of the one before. Answered as a request is."""

    request: Request


@dataclass(frozen=True, slots=True)
class Read:
    """Read what the open stream has next: bytes, none at its end, or a failure."""


type Receive = Callable[[Answer], Callable[[bytes], None] | None]
"""Takes the beginning of an answer; returns what takes its body, piece by piece, or None for a short body."""


@dataclass(frozen=True, slots=True)
class Direct:
    """One request to another server than the gateway, without the token. Its URL is a secret.

    Answered as a request is. A body that `receive` does not take is kept up to a bound.
    """

    method: Literal["GET", "PUT"]
    url: str = field(repr=False)
    headers: Mapping[str, str]
    content: Callable[[], Iterator[bytes]] | None = None
    receive: Receive = lambda _: None


@dataclass(frozen=True, slots=True)
class Local:
    """Do something with files of this machine, which may take a while."""

    function: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Together:
    """Carry out several operations concurrently, until all have ended. The first error ends the others."""

    operations: Sequence["Steps[None]"]


@dataclass(frozen=True, slots=True)
class Emit[T]:
    """Give the caller one value of an iterator."""

    value: T


type Step = Request | Pause | Now | Open | Read | Direct | Local | Together
type Reply = Answer | Failure | bytes | float | None
type Steps[T] = Generator[Step, Reply, T]
"""An operation with one result."""
type Stream[T] = Generator[Step | Emit[T], Reply, None]
"""An operation with any number of results, one after the other."""


def next_of[T](stream: Stream[T]) -> Generator[Step, Reply, Emit[T] | None]:
    """The next value that a stream emits; None at its end."""
    reply: Reply = None
    while True:
        try:
            step = stream.send(reply)
        except StopIteration:
            return None
        if isinstance(step, Emit):
            return step
        reply = yield step


def send(request: Request) -> Steps[Answer | Failure]:
    """Send a request once."""
    return cast("Answer | Failure", (yield request))


def pause(seconds: float, retrying: Retrying | None = None) -> Steps[None]:
    """Wait for some seconds."""
    yield Pause(seconds, retrying)


def now() -> Steps[float]:
    """The seconds on the clock of the transport."""
    return cast("float", (yield Now()))


def opened(request: Request) -> Steps[Answer | Failure]:
    """Begin to read a stream."""
    return cast("Answer | Failure", (yield Open(request)))


def read() -> Steps[bytes | Failure]:
    """The next bytes of the open stream; none at its end."""
    return cast("bytes | Failure", (yield Read()))


def direct(request: Direct) -> Steps[Answer | Failure]:
    """Send a request to another server once."""
    return cast("Answer | Failure", (yield request))


def local[T](function: Callable[[], T]) -> Steps[T]:
    """What a function returns that works with files of this machine. Its errors end the operation."""
    found: list[T] = []
    yield Local(lambda: found.append(function()))
    return found[0]


def together(operations: Sequence[Steps[None]]) -> Steps[None]:
    """Carry out several operations at the same time."""
    if operations:
        yield Together(operations)


def each_of[T](items: Iterable[T], at_once: int, operation: Callable[[T], Steps[None]]) -> Steps[None]:
    """Carry out an operation for each item, at most `at_once` of them concurrently. The first error ends all."""
    left = deque(items)

    def work() -> Steps[None]:
        while True:
            try:
                item = left.popleft()
            except IndexError:
                return
            yield from operation(item)

    yield from together([work() for _ in range(min(at_once, len(left)))])
