"""What no page may do, whatever its test is about.

A page asks only its own origin and the others that the test allows. It logs no error, raises none, breaks no rule of
its Content-Security-Policy, and gets no 5xx. A test announces what it provokes, with `Guards.expect`.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from yarl import URL

from browser.playwright_api import Context
from browser.shared_workers import watch_shared_workers

MAX_PROBLEMS = 100
"""Later ones are not kept: a page in a loop would fill the memory."""
MAX_CHARACTERS = 2_000
_VIOLATIONS = """\
addEventListener("securitypolicyviolation", (event) => console.error(
  `CSP: ${event.effectiveDirective} refused ${event.blockedURI} at ${event.sourceFile}:${event.lineNumber}`), true);
"""
_FAILED_ANSWER = "Failed to load resource: the server responded with a status of"
"""How Chromium logs each 4xx and 5xx, which guards look at themselves."""
_LOCAL_SCHEMES = ("about:", "blob:", "data:", "chrome-error:")


@dataclass
class Guards:
    """What the pages of one browser context did wrong, as one line each."""

    origins: set[str]
    """Where pages may send requests."""
    others: set[str] = field(default_factory=set)
    """Origins that a person may go to. What the pages there do is their own affair."""
    api_path: str = "/v1/"
    """Where 4xx is an answer that the page shows. Elsewhere it is a file that is missing."""
    _found: list[str] = field(default_factory=list)
    _expected: list[re.Pattern[str]] = field(default_factory=list)

    def leave_to(self, address: str) -> None:
        """Let a person go to the origin of an address, such as the provider's during a sign-in."""
        self.others.add(_origin(address))

    def expect(self, pattern: str) -> None:
        """Announce what this test provokes: lines that the pattern is found in. At least one must come."""
        self._expected.append(re.compile(pattern))

    def problems(self) -> list[str]:
        """All that was wrong, and what was announced and did not come."""
        wrong = [line for line in self._found if not any(pattern.search(line) for pattern in self._expected)]
        return wrong + list(self._missing())

    async def watch(self, context: Context) -> None:
        """Look at all that the pages of a context do from now on."""
        await context.add_init_script(_VIOLATIONS)
        context.on("request", self._request)
        context.on("response", self._response)
        context.on("console", self._logged)
        context.on("weberror", self._raised)
        await watch_shared_workers(context, self._worker_told)
        context.on("page", lambda page: page.on("websocket", lambda opened: self._asked(opened.url, self.origins)))

    def _missing(self) -> Iterator[str]:
        for pattern in self._expected:
            if not any(map(pattern.search, self._found)):
                yield f"announced, but did not come: {pattern.pattern}"

    def _add(self, line: str) -> None:
        if len(self._found) < MAX_PROBLEMS:
            self._found.append(line[:MAX_CHARACTERS])

    def _request(self, asked: Any) -> None:
        if asked.is_navigation_request():
            allowed = self.origins | self.others
        elif _origin(asked.frame.url) in self.others:
            return
        else:
            allowed = self.origins
        self._asked(asked.url, allowed)

    def _asked(self, address: str, allowed: Collection[str]) -> None:
        if not address.startswith(_LOCAL_SCHEMES) and _origin(address) not in allowed:
            self._add(f"foreign request: {address}")

    def _response(self, response: Any) -> None:
        self._answered(response.url, response.status)

    def _answered(self, address: str, status: int) -> None:
        if _origin(address) not in self.origins:
            return
        is_file = not URL(address).path.startswith(self.api_path)
        if status >= 500 or (status >= 400 and is_file):
            self._add(f"HTTP {status}: {address}")

    def _worker_told(self, event: str, told: dict[str, Any]) -> None:
        match event:
            case "Network.requestWillBeSent":
                self._asked(told["request"]["url"], self.origins)
            case "Network.responseReceived":
                self._answered(told["response"]["url"], told["response"]["status"])
            case "Network.webSocketCreated":
                self._asked(told["url"], self.origins)
            case "Runtime.consoleAPICalled" if told["type"] in ("error", "assert"):
                said = " ".join(str(part.get("value", part.get("description"))) for part in told["args"])
                self._add(f"console: {said}")
            case "Runtime.exceptionThrown":
                details = told["exceptionDetails"]
                self._add(f"uncaught: {details.get('exception', {}).get('description', details['text'])}")

    def _logged(self, message: Any) -> None:
        is_ours = message.page is None or _origin(message.page.url) not in self.others
        if is_ours and message.type in ("error", "assert") and not message.text.startswith(_FAILED_ANSWER):
            self._add(f"console: {message.text}")

    def _raised(self, uncaught: Any) -> None:
        if uncaught.page is None or _origin(uncaught.page.url) not in self.others:
            self._add(f"uncaught: {uncaught.error.stack or uncaught.error}")


def _origin(address: str) -> str:
    """The origin of an address, as a page of the same one has it: http for a web socket. Empty for one of no server."""
    if address.startswith(_LOCAL_SCHEMES) or not address:
        return ""
    return str(URL(re.sub(r"^ws(s?):", r"http\1:", address)).origin())
