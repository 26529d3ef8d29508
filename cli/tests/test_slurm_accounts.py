"""The names by which programs know the account that they run as."""

import os
import pwd

import pytest
from clusterra_cli.slurm_commands.terminal.local_user_names import local_user_names, with_own_name


def test_the_account_is_known_by_its_variables_and_its_uid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "visitor")
    monkeypatch.setenv("LOGNAME", "")

    assert local_user_names() == {"visitor", pwd.getpwuid(os.getuid()).pw_name}


def test_a_uid_without_a_name_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("USER", raising=False)
    monkeypatch.delenv("LOGNAME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)

    assert local_user_names() == frozenset()


def test_only_the_name_of_the_account_means_the_caller_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "visitor")

    assert with_own_name(("visitor", "bob"), "ada") == ("visitor", "bob", "ada")
    assert with_own_name(("bob",), "ada") == ("bob",)
