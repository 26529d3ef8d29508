"""The parts of a sign-in: the proof, the listener on this machine, and what a foreign server cannot do."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from clusterra.sign_in.flows import DevicePrompt, SignInFailed, Wanted, device, loopback
from clusterra.sign_in.loopback_listener import Listener
from clusterra.sign_in.pkce import Proof, new_proof

type Paths = Mapping[str, Callable[[str], tuple[int, Any]]]


@contextmanager
def server(paths: Callable[[str], Paths]) -> Iterator[str]:
    """A server on this machine. `paths` gets its address, and has what it answers to a body, by path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            status, told = found[self.path](body) if self.path in found else (404, {})
            sent = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_POST = do_GET  # noqa: N815 - the name of the library

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        url = f"http://127.0.0.1:{http.server_address[1]}"
        found = paths(url)
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield url
        http.shutdown()
        thread.join()


def metadata(issuer: str, **more: str) -> Callable[[str], tuple[int, Any]]:
    return lambda _: (200, {"issuer": issuer, "authorization_endpoint": f"{issuer}/v1/auth/authorize", **more})


METADATA = "/.well-known/oauth-authorization-server"


def visit(address: str) -> int:
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def in_a_browser(visits: Callable[[str], object]) -> tuple[Callable[[str], None], list[threading.Thread]]:
    """What opens an address: a thread that visits."""
    threads: list[threading.Thread] = []

    def open_it(address: str) -> None:
        threads.append(threading.Thread(target=visits, args=(address,)))
        threads[-1].start()

    return open_it, threads


def test_the_challenge_is_that_of_the_standard() -> None:
    proof = Proof("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")

    assert proof.challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    assert proof.verifier not in repr(proof)
    assert new_proof() != new_proof()
    assert len(new_proof().verifier) >= 43


def test_only_the_browser_of_this_sign_in_is_listened_to() -> None:
    with Listener("the state") as listener:
        uri = listener.redirect_uri
        statuses: list[int] = []

        def visits() -> None:
            for target in ("favicon.ico", "?code=evil&state=other", "?state=the+state", "x?code=1&state=the+state"):
                statuses.append(visit(f"{uri}{target}"))
            statuses.append(visit(f"{uri}?code=a%2Fb&state=the+state&iss=x"))

        thread = threading.Thread(target=visits)
        thread.start()
        answer = listener.answer(60)
        thread.join()

    assert answer == {"code": "a/b", "state": "the state", "iss": "x"}
    assert statuses == [404, 404, 404, 404, 200]


def test_a_browser_that_does_not_come_is_not_waited_for_for_ever() -> None:
    with server(lambda url: {METADATA: metadata(url)}) as url, pytest.raises(SignInFailed) as failed:
        loopback(url, lambda _: None, timeout=0.1)

    assert failed.value.code == "timeout"


@pytest.mark.parametrize("sign_in", [loopback, device])
def test_a_server_that_names_another_gateway_is_refused(sign_in: Callable[..., object]) -> None:
    opened: list[object] = []

    with (
        server(lambda _: {METADATA: metadata("https://real.example")}) as url,
        pytest.raises(SignInFailed, match=r"https://real\.example"),
    ):
        sign_in(url, opened.append)

    assert opened == []


def test_a_page_of_another_address_is_never_opened() -> None:
    paths = {METADATA: lambda url: metadata(url, authorization_endpoint="https://evil.example/v1/auth/authorize")}

    with (
        server(lambda url: {METADATA: paths[METADATA](url)}) as url,
        pytest.raises(SignInFailed, match="another address"),
    ):
        loopback(url, pytest.fail)


def test_a_browser_that_comes_from_another_gateway_is_refused() -> None:
    def visits(address: str) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        visit(f"{asked['redirect_uri']}?code=x&iss=https%3A%2F%2Fevil.example&state={asked['state']}")

    open_browser, threads = in_a_browser(visits)
    with server(lambda url: {METADATA: metadata(url)}) as url, pytest.raises(SignInFailed, match="another gateway"):
        loopback(url, open_browser)

    for each in threads:
        each.join()


def test_a_device_is_polled_until_the_person_has_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("clusterra.sign_in.flows.time.sleep", pauses.append)
    answers = iter(
        [
            (400, {"error": "authorization_pending"}),
            (400, {"error": "slow_down"}),
            (503, {}),
            (200, {"access_token": "clusterra_x", "token_type": "Bearer", "expires_in": 3600, "scope": "profile"}),
        ]
    )
    shown: list[DevicePrompt] = []

    def begun(url: str) -> dict[str, object]:
        page = f"{url}/v1/auth/device"
        uris = {"verification_uri": page, "verification_uri_complete": f"{page}?user_code=AB"}
        return {"device_code": "d", "user_code": "AB", "expires_in": 600, "interval": 5, **uris}

    with server(
        lambda url: {
            METADATA: metadata(url),
            "/v1/auth/device": lambda _: (200, begun(url)),
            "/v1/auth/token": lambda _: next(answers),
        }
    ) as url:
        signed_in = device(url, shown.append, wanted=Wanted(machine="ada's laptop!"))

    assert signed_in.token == "clusterra_x"
    assert "clusterra_x" not in repr(signed_in)
    assert pauses == [5.0, 5.0, 10.0, 10.0]
    assert shown[0].user_code == "AB"


def test_a_denied_device_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterra.sign_in.flows.time.sleep", lambda _: None)

    def begun(url: str) -> dict[str, object]:
        page = f"{url}/v1/auth/device"
        uris = dict.fromkeys(("verification_uri", "verification_uri_complete"), page)
        return {"device_code": "d", "user_code": "AB", "expires_in": 600, "interval": 5, **uris}

    with (
        server(
            lambda url: {
                METADATA: metadata(url),
                "/v1/auth/device": lambda _: (200, begun(url)),
                "/v1/auth/token": lambda _: (400, {"error": "access_denied"}),
            }
        ) as url,
        pytest.raises(SignInFailed) as failed,
    ):
        device(url, lambda _: None)

    assert failed.value.code == "access_denied"


@pytest.mark.parametrize(("name", "sent"), [("ada's <b>", "ada-s -b-"), (" -x", "x"), ("é", None)])
def test_the_name_of_the_machine_is_one_that_the_gateway_takes(name: str, sent: str | None) -> None:
    assert Wanted(machine=name).form.get("machine") == sent
