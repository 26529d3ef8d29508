"""What the images contain and what they do not, their size, their layers and their labels."""

import re
from fnmatch import fnmatch
from itertools import takewhile

import pytest
from container_engine import File, done, files, inspect
from service_containers import IMAGES, ROOT, SERVICES, VERSION, image, locked

pytestmark = [pytest.mark.containers, pytest.mark.usefixtures("images")]

BASE = "python:3.13-slim"
LIMIT_BYTES = 200_000_000
PACKAGES = {
    "gateway": {"gateway", "sbatch", "templates"},
    "proxy": {"proxy", "sbatch"},
    "scaler": {"scaler"},
    "edge-agent": {"edge_agent"},
    "events": {"events"},
    "admin": {"admin", "gateway", "sbatch", "templates", "scaler", "events"},
}
"""Image -> our packages besides the libraries that all have. `clusterra-admin` imports three services."""
SITE = re.compile(r"/opt/clusterra/lib/python[\d.]+/site-packages/([^/]+)")
UNWANTED = (
    *("*/.git", "*/.env", "*.creds", "*.key", "*.nk", "*/id_rsa", "*/.netrc", "*/.aws", "*/.ssh"),
    *("*/bin/pip", "*/bin/pip3*", "*/bin/uv", "*/bin/uvx", "*/bin/gcc*", "*/bin/cc", "*/bin/g++*", "*/bin/make"),
    *("*/bin/git", "*/bin/curl", "*/bin/ssh", "*/clusterra_*/tests", "*/clusterra_*/test_*.py", "/src", "/mnt/*"),
    *("/node", "*/node_modules", "*/bin/node", "*/bin/npm"),
)
DEVELOPMENT = {"pytest", "hypothesis", "mypy", "ruff", "uv", "pip", "setuptools", "testcontainers", "rich-toolkit"}


def installed(listed: list[File]) -> dict[str, str]:
    """Distribution -> version, by the folders `*.dist-info` of the environment."""
    found = {match[1] for file in listed if (match := SITE.match(file.path)) and match[1].endswith(".dist-info")}
    pairs = (name.removesuffix(".dist-info").rsplit("-", 1) for name in found)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pairs}


@pytest.mark.parametrize("target", IMAGES)
async def test_an_image_has_its_service_its_dependencies_as_locked_and_nothing_else(target: str) -> None:
    distributions = installed(await files(image(target)))
    own = {name for name in distributions if name.startswith("clusterra-")}
    others = {name: version for name, version in distributions.items() if name not in own}

    assert own == {f"clusterra-{name.replace('_', '-')}" for name in PACKAGES[target] | {"contracts", "runtime"}}
    assert {name: version for name, version in others.items() if locked().get(name) != version} == {}
    assert not DEVELOPMENT & set(others)


@pytest.mark.parametrize("target", IMAGES)
async def test_an_image_has_no_secret_no_tool_and_no_file_that_everyone_may_write(target: str) -> None:
    listed = await files(image(target))
    unwanted = [file.path for file in listed if any(fnmatch(file.path, pattern) for pattern in UNWANTED)]
    writable = [file.path for file in listed if file.kind != "l" and int(file.mode, 8) & 0o002]

    assert unwanted == []
    assert set(writable) <= {"/tmp", "/var/tmp", "/run/lock"}


@pytest.mark.parametrize("target", IMAGES)
async def test_our_packages_are_compiled(target: str) -> None:
    paths = {file.path for file in await files(image(target))}
    sources = [path for path in paths if "/site-packages/clusterra_" in path and path.endswith(".py")]
    (tag,) = {path.rsplit(".", 2)[1] for path in paths if "/clusterra_runtime/__pycache__/" in path}

    missing = [path for path in sources if re.sub(r"/([^/]+)\.py$", rf"/__pycache__/\1.{tag}.pyc", path) not in paths]

    assert len(sources) > 20
    assert missing == []


@pytest.mark.parametrize("target", IMAGES)
async def test_an_image_is_smaller_than_200_mb_beyond_its_base(target: str) -> None:
    size, base = [int((await inspect(name))["Size"]) for name in (image(target), BASE)]

    assert 0 < size - base < LIMIT_BYTES


async def test_the_images_share_the_layers_of_the_base_and_of_the_libraries() -> None:
    layers = [(await inspect(image(target)))["RootFS"]["Layers"] for target in IMAGES]
    base = (await inspect(BASE))["RootFS"]["Layers"]

    shared = len(list(takewhile(lambda each: len(set(each)) == 1, zip(*layers, strict=False))))

    assert layers[0][: len(base)] == base
    # The user, and the dependencies of the libraries.
    assert shared == len(base) + 2


@pytest.mark.parametrize("target", IMAGES)
async def test_an_image_says_what_it_is_and_how_it_runs(target: str) -> None:
    about = await inspect(image(target))
    config = about["Config"]
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in config["Labels"].items()}

    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == [f"clusterra-{target}"]
    assert config["StopSignal"] == "SIGTERM"
    assert ("Healthcheck" in config) == (target in SERVICES)
    assert not [line for line in config["Env"] if re.search("SECRET|PASSWORD|TOKEN|ACCESS_KEY", line)]
    assert labels.keys() >= {"title", "description", "version", "revision", "licenses", "created"}
    assert (labels["title"], labels["version"], labels["revision"]) == (f"clusterra-{target}", VERSION, "0123abc")
    assert labels["created"] == about["Created"] == "2023-11-14T22:13:20Z"


@pytest.mark.parametrize("target", ["gateway", "admin"])
async def test_the_catalogue_is_where_the_image_says(target: str) -> None:
    script = 'cat "$CLUSTERRA_CATALOGUE_FILE"'
    read = await done("run", "--rm", "--read-only", "--entrypoint=sh", image(target), "-c", script)

    assert read == (ROOT / "catalog" / "shapes.yaml").read_text().strip()


async def test_the_gateway_has_the_built_console() -> None:
    script = 'cat "$CLUSTERRA_CONSOLE_DIR/index.html"'
    page = await done("run", "--rm", "--read-only", "--entrypoint=sh", image("gateway"), "-c", script)
    loaded = {f"/usr/share/clusterra/console{each}" for each in re.findall(r'"(/assets/[^"]+)"', page)}

    assert "CSP_NONCE" in page
    assert loaded
    assert loaded <= {file.path for file in await files(image("gateway"))}
