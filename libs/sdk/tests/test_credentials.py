"""Tokens are found where they were stored, and in no file that others can read."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import keyring
import keyring.backends.fail
import pytest
from clusterra.credentials import CredentialsError, Place, StoredToken, checked_token, file, find, forget, store
from keyring.backend import KeyringBackend

URL = "https://clusterra.example"


class MemoryKeyring(KeyringBackend):
    """A keyring that works."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # keyring has no types here
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


class LockedKeyring(MemoryKeyring):
    """A keyring that takes everything and keeps nothing, as a locked one may."""

    def set_password(self, service: str, username: str, password: str) -> None:
        pass


@pytest.fixture(autouse=True)
def _own_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("CLUSTERRA_CONFIG", str(tmp_path / "own" / "config.toml"))
    monkeypatch.delenv("CLUSTERRA_TOKEN", raising=False)
    before = keyring.get_keyring()
    keyring.set_keyring(keyring.backends.fail.Keyring())  # type: ignore[no-untyped-call]  # keyring has no types here
    yield
    keyring.set_keyring(before)


def test_without_a_keyring_a_file_of_the_owner_alone_has_the_token() -> None:
    place = store(f"{URL}/", "secret")

    assert place == Place("file", str(file()))
    assert stat.S_IMODE(file().stat().st_mode) == 0o600
    assert find(URL) == "secret"
    assert find("https://other.example") is None
    assert forget(URL)
    assert find(URL) is None
    assert not forget(URL)


def test_a_keyring_that_works_has_the_token() -> None:
    store(URL, "older")
    works = MemoryKeyring()
    keyring.set_keyring(works)

    place = store(URL, "secret")

    assert place.kind == "keyring"
    assert works.kept == {("clusterra", URL): "secret"}
    assert "older" not in file().read_text()
    assert find(URL) == "secret"
    assert forget(URL)
    assert find(URL) is None


def test_a_keyring_that_does_not_work_is_not_used() -> None:
    keyring.set_keyring(LockedKeyring())

    assert store(URL, "secret").kind == "file"
    assert find(URL) == "secret"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o660])
def test_a_file_that_others_can_use_is_refused(mode: int) -> None:
    store(URL, "secret")
    file().chmod(mode)

    with pytest.raises(CredentialsError) as error:
        find(URL)

    assert str(file()) in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"tokens": []}', '{"tokens": {"a": 5}}', "\xff"])
def test_a_file_that_cannot_be_read_is_named(text: str) -> None:
    store(URL, "secret")
    file().write_text(text)

    with pytest.raises(CredentialsError, match="sign in again"):
        find(URL)


def test_the_environment_goes_first_and_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    store(URL, "stored")
    monkeypatch.setenv("CLUSTERRA_TOKEN", "given")

    assert find(URL) == "given"
    assert json.loads(file().read_text()) == {"tokens": {URL: "stored"}}


def test_a_token_that_is_refused_is_read_again_once_it_has_changed() -> None:
    store(URL, "old")
    credentials = StoredToken(URL)
    assert credentials.token() == "old"

    assert credentials.renewed("old") is None
    store(URL, "new")
    assert credentials.token() == "old"
    assert credentials.renewed("old") == "new"
    assert credentials.token() == "new"
    assert "new" not in repr(credentials)


def test_a_token_loses_the_line_end_of_its_file() -> None:
    assert checked_token("clusterra_abc\n") == "clusterra_abc"


@pytest.mark.parametrize("given", ["", " ", "a b", "a\nb", "t\x00", "tök"])
def test_what_is_no_token_is_refused_and_not_repeated(given: str) -> None:
    with pytest.raises(CredentialsError) as refused:
        checked_token(given)

    assert not given.strip() or given not in str(refused.value)
