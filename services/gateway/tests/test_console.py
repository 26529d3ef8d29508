"""The console's page and files: its policy, its addresses, and the origins of buckets that only their people get."""

import gzip
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from built_console import SCRIPT, written
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import StorageBinding
from clusterra_gateway.console import site as site_module
from clusterra_gateway.console.site import load_site
from clusterra_gateway.files.origins import BucketOrigins
from clusterra_gateway.identity.access.authentication import COOKIE, SESSION
from clusterra_gateway.identity.access.credentials import CredentialCache
from clusterra_gateway.identity.access.signed_tokens import Claims, SigningKeys
from clusterra_gateway.settings import Settings, SettingsFileInvalid
from clusterra_lab.machine.process import until
from clusterra_runtime.nats.registry import Registry, delete_binding, put_binding
from clusterra_runtime.store.store import StoreUnavailable
from gateway_world import World, running
from issuer_stand_in import IssuerStandIn
from people_world import bearer, cookie_of, me
from yarl import URL

ADDRESSES = (
    *("/", "/sign-in", "/sign-in?return_to=%2Fc%2Fmain", "/device", "/device?user_code=BBBB-BBBB", "/invitation"),
    *("/c/main", "/c/main/jobs/42_7", "/c/main/files/a/b%20c/d", "/shared"),
)


@pytest.fixture
async def world(settings: Settings, issuer: IssuerStandIn, tmp_path: Path) -> AsyncIterator[World]:
    folder = written(tmp_path / "console")
    async with running(settings.model_copy(update={"console_dir": folder}), issuer) as world:
        yield world


@pytest.fixture
async def bare(settings: Settings, issuer: IssuerStandIn) -> AsyncIterator[World]:
    async with running(settings, issuer) as world:
        yield world


def storage(**fields: object) -> StorageBinding:
    keys = {"kind": "keys", "access_key_id": "file:/none/id", "secret_access_key": "file:/none/secret"}
    return StorageBinding.model_validate({"bucket": "acme-files", "region": "eu-west-1", "credentials": keys} | fields)


async def put_bucket(world: World, tenant: str, binding: StorageBinding, cluster: str = "stored") -> None:
    """Gives a tenant a cluster with this bucket, whose keys nobody can read."""
    own = world.registry.get((world.acme if tenant == "acme" else world.rival).ref)
    assert own is not None
    ref = ClusterRef(tenant=tenant, cluster=cluster)
    await put_binding(world.client, ref, own.model_copy(update={"storage": binding}))
    world.opened.push_async_callback(delete_binding, world.client, ref)


async def policy_of(browser: aiohttp.ClientSession, path: str = "/", **request: object) -> dict[str, list[str]]:
    """The policy of the page: its sources by directive."""
    async with browser.get(path, **request) as answer:  # type: ignore[arg-type]
        assert answer.status == 200, await answer.text()
        parts = (each.split() for each in answer.headers["Content-Security-Policy"].split(";"))
        return {name: sources for name, *sources in parts}


async def reachable(browser: aiohttp.ClientSession) -> list[str]:
    """What the page may reach."""
    return (await policy_of(browser))["connect-src"]


@pytest.mark.parametrize("path", ADDRESSES)
async def test_the_page_is_at_each_of_its_addresses(world: World, path: str) -> None:
    stranger = await world.browser()

    async with stranger.get(URL(world.url + path, encoded=True)) as answer:
        text = await answer.text()
    async with stranger.head(URL(world.url + path, encoded=True)) as head:
        nothing = await head.read()

    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["Cache-Control"] == "no-store"
    assert "/assets/index-1.js" in text
    assert (head.status, nothing, head.headers["Cache-Control"]) == (200, b"", "no-store")
    assert head.headers["Content-Length"] == str(len(text))


async def test_each_page_has_a_nonce_of_its_own(world: World) -> None:
    stranger, nonces = await world.browser(), set[str]()

    for _ in range(3):
        async with stranger.get("/") as answer:
            text = await answer.text()
        found = set(re.findall(r'nonce="([^"]+)"', text))
        assert "CSP_NONCE" not in text
        assert len(found) == 1
        assert f"style-src 'self' 'nonce-{found.copy().pop()}';" in answer.headers["Content-Security-Policy"]
        nonces |= found

    assert len(nonces) == 3
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{24}", nonce) for nonce in nonces)


async def test_the_page_loads_nothing_of_others(world: World) -> None:
    stranger = await world.browser()

    policy = await policy_of(stranger, "/c/main/jobs")
    async with stranger.get("/") as answer:
        headers = answer.headers

    assert policy.pop("style-src")[0] == "'self'"
    assert policy == {
        **{name: ["'none'"] for name in ("default-src", "frame-ancestors", "base-uri", "object-src")},
        **{f"{name}-src": ["'self'"] for name in ("script", "font", "connect", "worker", "manifest")},
        "form-action": ["'self'"],
        "img-src": ["'self'", "data:", "blob:"],
        "media-src": ["'self'", "blob:"],
    }
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    for feature in ("camera", "microphone", "geolocation", "payment", "usb"):
        assert f"{feature}=()" in headers["Permissions-Policy"]


@pytest.mark.parametrize(
    "path", ["/nonsense", "/v1/nonsense", "/c", "/c/", "/shared/a", "/index.html", "/secret.txt", "/assets", "/v1"]
)
async def test_nothing_else_is_the_page(world: World, path: str) -> None:
    stranger = await world.browser()

    async with stranger.get(path) as answer:
        problem = await answer.json(content_type="application/problem+json")

    assert (answer.status, problem["status"]) == (404, 404)
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; frame-ancestors")


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("index-1.js", "text/javascript; charset=utf-8"),
        ("index-1.css", "text/css; charset=utf-8"),
        ("icon-1.svg", "image/svg+xml; charset=utf-8"),
        ("font-1.woff2", "font/woff2"),
        ("data.unknown", "application/octet-stream"),
    ],
)
async def test_a_file_is_kept_forever(world: World, name: str, content_type: str) -> None:
    stranger = await world.browser()

    async with stranger.get(f"/assets/{name}", headers={"Accept-Encoding": "identity"}) as answer:
        content = await answer.read()
    async with stranger.get(f"/assets/{name}", headers={"If-None-Match": answer.headers["ETag"]}) as again:
        nothing = await again.read()

    assert (answer.status, content) == (200, (Path(world.settings.console_dir or "") / "assets" / name).read_bytes())
    assert answer.headers["Content-Type"] == content_type
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert (again.status, nothing) == (304, b"")
    for each in (answer, again):
        assert each.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert each.headers["ETag"] == answer.headers["ETag"]
        assert each.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip", "gzip"),
        ("GZIP;q=0.5", "gzip"),
        ("br;q=0, gzip;q=0.1", "gzip"),
        ("br; q=0.000, gzip;q=0.0", None),
        ("identity", None),
        ("x-brotli", None),
        ("", None),
    ],
)
async def test_a_file_is_sent_as_the_browser_takes_it(world: World, accepted: str, coding: str | None) -> None:
    stranger = await world.browser()

    async with stranger.get(
        "/assets/index-1.js", headers={"Accept-Encoding": accepted}, auto_decompress=False
    ) as answer:
        content = await answer.read()

    assert answer.headers.get("Content-Encoding") == coding
    assert (gzip.decompress(content) if coding == "gzip" else content) == (b"as brotli" if coding == "br" else SCRIPT)


async def test_a_file_without_compressed_ones_is_sent_as_it_is(world: World) -> None:
    stranger = await world.browser()

    async with stranger.get("/assets/index-1.css", headers={"Accept-Encoding": "br, gzip"}) as answer:
        assert await answer.read() == b"p { color: red }"
        assert "Content-Encoding" not in answer.headers


async def test_a_worker_may_compute_and_reach_the_gateway_alone(world: World) -> None:
    stranger = await world.browser()

    async with stranger.get("/assets/index-1.js") as answer:
        policy = answer.headers["Content-Security-Policy"]
    async with stranger.get("/assets/icon-1.svg") as picture:
        assert picture.headers["Content-Security-Policy"].startswith("default-src 'none'; frame-ancestors")

    assert policy.startswith("default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self';")


@pytest.mark.parametrize(
    "name",
    [
        *("index.html", "none.js", "index-1.js.br", "index-1.js.gz", "INDEX-1.JS", "index-1.js%00", "%2e%2e", "."),
        *("..%2findex.html", "..%2F..%2Fetc%2Fpasswd", "..%5cindex.html", "%252e%252e%252findex.html"),
        *("../secret.txt", "%2e%2e/secret.txt", "./../secret.txt", "a/../../secret.txt", "//etc/passwd", "", "x" * 300),
    ],
)
async def test_no_other_file_is_served(world: World, name: str) -> None:
    stranger = await world.browser()

    async with stranger.get(URL(f"{world.url}/assets/{name}", encoded=True)) as answer:
        text = await answer.text()

    assert (answer.status, answer.content_type) == (404, "application/problem+json"), text
    assert "not served" not in text


async def test_a_file_that_is_written_later_is_not_served(world: World) -> None:
    stranger = await world.browser()
    assert world.settings.console_dir is not None
    (world.settings.console_dir / "assets" / "late-1.js").write_bytes(b"late")

    async with stranger.get("/assets/late-1.js") as answer:
        assert answer.status == 404


async def test_the_page_may_reach_the_buckets_of_the_callers_tenant_alone(world: World) -> None:
    await put_bucket(world, "acme", storage(endpoint="http://s3.internal:9000", public_endpoint="https://S3.example"))
    await put_bucket(world, "acme", storage(bucket="acme-more"), "third")
    await put_bucket(world, "rival", storage(bucket="rival-files", endpoint="http://127.0.0.1:9000"))
    ada, eve, stranger = [
        *[await world.login(email) for email in ("ada@acme.example", "eve@rival.example")],
        await world.browser(),
    ]
    of_acme = ["'self'", "https://s3.example", "https://acme-more.s3.eu-west-1.amazonaws.com"]
    of_rival = ["'self'", "http://127.0.0.1:9000"]

    async def told() -> bool:
        return (await reachable(ada), await reachable(eve)) == (of_acme, of_rival)

    await until(told, seconds=90, what="the clusters in the gateway", every=0.05)
    assert await reachable(stranger) == ["'self'"]
    async with stranger.get("/c/stored") as answer:
        assert "s3.example" not in str(answer.headers) + await answer.text()


async def with_a_bucket(world: World) -> aiohttp.ClientSession:
    """Ada's browser, whose page may reach a bucket."""
    await put_bucket(world, "acme", storage())
    ada = await world.login("ada@acme.example")

    async def told() -> bool:
        return await reachable(ada) != ["'self'"]

    await until(told, seconds=90, what="the cluster in the gateway", every=0.05)
    return ada


async def test_a_wrong_session_gets_the_page_of_a_stranger(world: World) -> None:
    await with_a_bucket(world)
    browser = await world.browser()

    for credential in ("", "x.y.z", "clusterra_wrong", "a" * 4000):
        for headers in ({"Cookie": f"{COOKIE}={credential}"}, bearer(credential)):
            policy = await policy_of(browser, headers=headers)
            assert policy["connect-src"] == ["'self'"]


async def test_an_expired_session_gets_the_page_of_a_stranger(world: World) -> None:
    ada = await with_a_bucket(world)
    now = int(time.time())
    claims = Claims(sub=(await me(ada))["id"], jti="1" * 32, iat=now - 10, exp=now - 1, auth_time=now - 10)
    expired = SigningKeys.load(world.settings.session_key_file).sign(SESSION, claims, seconds=-1)

    policy = await policy_of(await world.browser(), headers={"Cookie": f"{COOKIE}={expired}"})

    assert policy["connect-src"] == ["'self'"]


async def test_a_signed_out_session_gets_the_page_of_a_stranger(world: World) -> None:
    ada = await with_a_bucket(world)
    session = {"Cookie": f"{COOKIE}={cookie_of(ada)}"}
    assert (await policy_of(await world.browser(), headers=session))["connect-src"] != ["'self'"]

    async with ada.post("/v1/auth/logout", headers={"Origin": world.settings.public_url}) as answer:
        assert answer.status == 204

    assert (await policy_of(await world.browser(), headers=session))["connect-src"] == ["'self'"]


async def test_the_page_is_there_while_the_store_is_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    session = {"Cookie": f"{COOKIE}={cookie_of(await with_a_bucket(world))}"}
    asked = 0

    async def away(*_: object, **__: object) -> None:
        nonlocal asked
        asked += 1
        raise StoreUnavailable("away")

    monkeypatch.setattr(world.store, "get", away)
    # A verified session is trusted for a while without the store.
    monkeypatch.setattr(CredentialCache, "get", lambda *_: None)

    assert (await policy_of(await world.browser(), headers=session))["connect-src"] == ["'self'"]
    assert asked > 0


@pytest.mark.parametrize(
    ("fields", "origin"),
    [
        ({}, "https://acme-files.s3.eu-west-1.amazonaws.com"),
        ({"addressing": "path"}, "https://s3.eu-west-1.amazonaws.com"),
        ({"region": "cn-north-1"}, "https://acme-files.s3.cn-north-1.amazonaws.com.cn"),
        ({"endpoint": "http://minio.local:9000"}, "http://minio.local:9000"),
        ({"endpoint": "https://minio.local:443"}, "https://minio.local"),
        ({"endpoint": "https://minio.local", "addressing": "virtual"}, "https://acme-files.minio.local"),
        ({"endpoint": "http://10.0.0.1:9000", "public_endpoint": "https://files.example"}, "https://files.example"),
        ({"endpoint": "https://minio.local; script-src *"}, None),
        ({"bucket": "no bucket; script-src *"}, None),
    ],
)
async def test_an_origin_is_that_of_presigned_urls(fields: dict[str, object], origin: str | None) -> None:
    assert await BucketOrigins(Registry()).of_bucket(storage(**fields)) == origin


@pytest.mark.parametrize("path", [*ADDRESSES, "/assets/index-1.js"])
async def test_a_gateway_without_a_console_says_so(bare: World, path: str) -> None:
    stranger = await bare.browser()

    async with stranger.get(path) as answer:
        problem = await answer.json(content_type="application/problem+json")

    assert answer.status == 404
    assert (problem["detail"], "CLUSTERRA_CONSOLE_DIR" in problem["hint"]) == ("this gateway has no console", True)


def test_a_wrong_folder_ends_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsFileInvalid, match=r"console_dir: .*index\.html cannot be read: No such file"):
        load_site(tmp_path)
    folder = written(tmp_path / "console")
    (folder / "assets" / "a b.js").write_bytes(b"")
    with pytest.raises(SettingsFileInvalid, match=r"'a b\.js' in .* is no name that can be served"):
        load_site(folder)
    (folder / "assets" / "a b.js").unlink()
    assert load_site(folder) is not None
    monkeypatch.setattr(site_module, "MAX_FILES", 3)
    with pytest.raises(SettingsFileInvalid, match="more than 3 files"):
        load_site(folder)
    monkeypatch.setattr(site_module, "MAX_FILES", 100)
    monkeypatch.setattr(site_module, "MAX_BYTES", 1000)
    with pytest.raises(SettingsFileInvalid, match="more than 1000 bytes"):
        load_site(folder)
