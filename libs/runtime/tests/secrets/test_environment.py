"""Secrets from environment variables."""

import pytest
from clusterra_runtime.secrets.local import read_binary_secret, read_secret
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.secrets.reference import SecretUnavailable

VARIABLE = "CLUSTERRA_SECRET_TEST"


async def test_a_variable_is_read_byte_for_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, " k\udcffy\n")

    assert read_secret(f"env:{VARIABLE}") == b"k\xffy"
    assert read_binary_secret(f"env:{VARIABLE}") == b" k\xffy\n"
    async with Secrets() as secrets:
        assert await secrets.read(f"env:{VARIABLE}") == b"k\xffy"
        assert secrets.last(f"env:{VARIABLE}") == b"k\xffy"


@pytest.mark.parametrize("value", [None, "", " \n"])
def test_a_variable_without_a_value_is_told(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)

    with pytest.raises(SecretUnavailable, match=f"env:{VARIABLE}"):
        read_secret(f"env:{VARIABLE}")
