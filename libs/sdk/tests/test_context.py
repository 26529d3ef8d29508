"""The file of contexts: what is written is read, a bad one is named with its line, and it is never half written."""

import stat
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import pytest
from clusterra.context import ConfigError, Context, Contexts, canonical_url, is_private, load, path, save
from clusterra.credentials import FixedToken
from clusterra.target import chosen_target
from hypothesis import given
from hypothesis import strategies as st

VARIABLES = ("CLUSTERRA_URL", "CLUSTERRA_TOKEN", "CLUSTERRA_CLUSTER")
names = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True)
clusters = st.none() | st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    place = tmp_path / "own" / "config.toml"
    monkeypatch.setenv("CLUSTERRA_CONFIG", str(place))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return place


@given(told=st.dictionaries(names, clusters, max_size=4), port=st.integers(1, 65535))
def test_what_is_written_is_read(told: dict[str, str | None], port: int) -> None:
    url = canonical_url(f"http://127.0.0.1:{port}/")
    contexts = Contexts(
        next(iter(told), None),
        MappingProxyType({name: Context(name, url, cluster) for name, cluster in told.items()}),
    )

    save(contexts)

    assert load() == contexts
    assert stat.S_IMODE(path().stat().st_mode) == 0o600
    assert list(path().parent.iterdir()) == [path()]


def test_without_a_file_there_is_no_context() -> None:
    assert load() == Contexts()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('current = "a"\n', "`current` is 'a'"),
        ("\ncurrent = 7\n", "line 2"),
        ("x = 1\ny =\n", "line 2"),
        ('[contexts.a]\nurl = "https://x"\n[contexts.b]\nurl = 5\n', "line 3"),
        ('[contexts.a]\ncluster = "main"\n', "line 1"),
        ('[contexts.a]\nurl = "ftp://x"\n', "ftp://x"),
        ("contexts = 5\n", "line 1"),
    ],
)
def test_a_bad_file_is_named_with_its_line(config: Path, text: str, told: str) -> None:
    config.parent.mkdir()
    config.write_text(text)

    with pytest.raises(ConfigError) as error:
        load()

    assert str(config) in str(error.value)
    assert told in str(error.value)


@given(data=st.binary(max_size=80))
def test_any_bytes_are_contexts_or_an_error(data: bytes) -> None:
    path().parent.mkdir(exist_ok=True)
    path().write_bytes(data)

    with suppress(ConfigError):
        load()


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("https://Clusterra.Example/", "https://clusterra.example"),
        ("https://clusterra.example:443", "https://clusterra.example"),
        ("http://[::1]:8080/x/", "http://[::1]:8080/x"),
    ],
)
def test_an_address_has_one_spelling(given: str, canonical: str) -> None:
    assert canonical_url(given) == canonical


@pytest.mark.parametrize(
    "given",
    ["", "clusterra.example", "ftp://x", "https://", "https://u:p@x", "https://x?y", "http://x:99999", "http://["],
)
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(ConfigError):
        canonical_url(given)


def test_the_caller_goes_before_the_environment_and_that_before_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="clusterra login"):
        chosen_target(None, None, None)

    save(Contexts().having(Context("work", "https://work.example", "main")))
    assert chosen_target(None, None, None).url == "https://work.example"
    assert chosen_target(None, None, None).cluster == "main"

    monkeypatch.setenv("CLUSTERRA_URL", "https://other.example")
    monkeypatch.setenv("CLUSTERRA_TOKEN", "from-the-environment")
    target = chosen_target(None, None, None)
    assert (target.url, target.cluster) == ("https://other.example", None)
    assert target.credentials.token() == "from-the-environment"

    monkeypatch.setenv("CLUSTERRA_CLUSTER", "of the environment")
    target = chosen_target("https://mine.example", "mine", None)
    assert (target.url, target.cluster) == ("https://mine.example", "of the environment")
    assert target.credentials == FixedToken("mine")
    assert "mine" not in repr(target.credentials)


def test_contexts_are_chosen_and_removed() -> None:
    both = Contexts().having(Context("a", "https://a")).having(Context("b", "https://b"), use=False)

    assert both.current == "a"
    assert both.using("b").chosen == Context("b", "https://b")
    assert both.without("a").current is None
    with pytest.raises(ConfigError, match="a, b"):
        both.using("c")


@pytest.mark.parametrize(
    ("url", "private"),
    [
        ("https://clusterra.example", True),
        ("http://127.0.0.1:8080", True),
        ("http://[::1]:8080", True),
        ("http://localhost", True),
        ("http://lab.localhost", True),
        ("http://clusterra.example", False),
        ("http://10.0.0.7", False),
        ("http://localhost.example", False),
    ],
)
def test_an_address_is_private_by_tls_or_on_this_machine(url: str, private: bool) -> None:
    assert is_private(url) == private
