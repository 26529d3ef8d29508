"""Makes the secrets that a directory lacks. What is there stays as it is, unless it is named to be replaced."""

import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from clusterra_contracts.agent_http import new_key
from clusterra_contracts.identity import ClusterRef

from clusterra_admin.secrets import declared, nats_operator
from clusterra_admin.secrets.declared import INSTALLATION, Declared, of_cluster
from clusterra_admin.secrets.directory import Directory
from clusterra_admin.secrets.nkey import Key
from clusterra_admin.secrets.problem import SecretsProblem

_SLURM_KEY_BYTES = 1024
_KINDS = {declared.OPERATOR: "O", declared.SYSTEM: "A", declared.ACCOUNT: "A"}

type Outcome = Literal["made", "brought", "replaced", "updated", "there", "restricted", "not needed"]
"""`restricted`: it was there, and more people could read it than should."""


@dataclass(frozen=True)
class Made:
    """What became of one secret."""

    name: str
    outcome: Outcome
    purpose: str
    may_be_brought: bool
    mode: str | None
    """The mode of its file; None without a file."""
    former_mode: str | None = None
    """The mode of the file before it was restricted."""


@dataclass(frozen=True)
class Lifetimes:
    """How many days new logins at NATS are valid: those of edge-agents, and those of central services."""

    agent_days: int
    central_days: int


class Making:
    """One run over the secrets of an installation, and of one cluster if it is given.

    `brought` maps names to files with their values. `replace` names those that are made again although they are there.
    """

    def __init__(
        self, directory: Directory, brought: Mapping[str, Path], replace: Iterable[str], lifetimes: Lifetimes
    ) -> None:
        self._directory = directory
        self._brought = brought
        self._replace = frozenset(replace)
        self._lifetimes = lifetimes

    def run(self, ref: ClusterRef | None) -> list[Made]:
        """Make what is missing. Nothing is written when something brought is wrong. Raises SecretsProblem."""
        self._directory.remove_parts()
        every = (*INSTALLATION, *(of_cluster(ref) if ref is not None else ()))
        brought = self._read_brought({secret.name: secret for secret in every})
        if unknown := self._replace - {secret.name for secret in every}:
            raise SecretsProblem(f"there is no secret {', '.join(sorted(unknown))}", _names(every))
        for secret in every:
            self._check_keys(secret, every, ref)
        self._check_update(ref)
        # The accounts in resolver.conf follow from keys, and an agent's login from its account.
        ordered = sorted(every, key=lambda secret: _kind(secret.name) is None)
        made = {secret.name: self._make(secret, every, brought, ref) for secret in ordered}
        return [made[secret.name] for secret in every]

    def _make(
        self, secret: Declared, every: tuple[Declared, ...], brought: Mapping[str, bytes], ref: ClusterRef | None
    ) -> Made:
        outcome: Outcome = "there"
        there = self._directory.has(secret.name)
        if secret.name in brought:
            self._directory.write(secret.name, brought[secret.name], secret.mode, replace=self._replaced(secret))
            outcome = "brought"
        elif self._wanted(secret, ref):
            if not there and _kind(secret.name) and not self._needed(secret, every, ref):
                outcome = "not needed"
            else:
                self._directory.write(secret.name, self._new(secret, ref), secret.mode, replace=there)
                outcome = "replaced" if there else "made"
        elif secret.name == declared.RESOLVER and not nats_operator.is_current(self._directory, ref):
            text = nats_operator.updated(self._directory, ref)
            self._directory.write(secret.name, text.encode(), secret.mode, replace=True)
            outcome = "updated"
        former = self._restrict(secret) if outcome == "there" else None
        return Made(
            secret.name,
            "restricted" if former is not None else outcome,
            secret.purpose,
            secret.accepts is not None,
            f"{self._directory.mode(secret.name):04o}" if self._directory.has(secret.name) else None,
            former,
        )

    def _restrict(self, secret: Declared) -> str | None:
        """Take away what a file's mode allows beyond the declared one. Returns the former mode if there was any."""
        mode = self._directory.mode(secret.name)
        if not mode & ~secret.mode:
            return None
        self._directory.restrict(secret.name, mode & secret.mode)
        return f"{mode:04o}"

    def _replaced(self, secret: Declared) -> bool:
        return secret.name in self._replace

    def _wanted(self, secret: Declared, ref: ClusterRef | None) -> bool:
        if self._replaced(secret) or not self._directory.has(secret.name):
            return True
        if secret.name.startswith("nats/") and secret.name.endswith(".creds"):
            (key,) = secret.made_from
            return self._directory.has(key) and nats_operator.ends_soon(self._directory, secret.name)
        if ref is None or secret.name != declared.agent_credentials(ref) or not self._directory.has(declared.RESOLVER):
            return False
        return not nats_operator.is_of_its_account(self._directory, ref)

    def _needed(self, key: Declared, every: tuple[Declared, ...], ref: ClusterRef | None) -> bool:
        """Whether a missing key signs something that is to be made. If not, it is kept offline."""
        return any(self._wanted(secret, ref) for secret in every if key.name in secret.made_from)

    def _check_keys(self, key: Declared, every: tuple[Declared, ...], ref: ClusterRef | None) -> None:
        """A new key would make everything worthless that the old one has signed, so both are made together or none."""
        signed = [each for each in every if key.name in each.made_from]
        stays = [each.name for each in signed if not self._wanted(each, ref)]
        if stays and self._replaced(key):
            raise SecretsProblem(f"a new {key.name} makes {', '.join(stays)} worthless", "name them with --replace too")
        if ref is not None and key.name == declared.cluster_account(ref):
            stays += [declared.RESOLVER] * nats_operator.knows_cluster(self._directory, ref)
        missing = not self._directory.has(key.name) and key.name not in self._brought
        if stays and missing and self._needed(key, every, ref):
            raise SecretsProblem(
                f"{self._directory.path / key.name} is missing, and {stays[0]} was made with it",
                nats_operator.BRING_BACK,
            )

    def _check_update(self, ref: ClusterRef | None) -> None:
        """An existing resolver.conf gets the account of a new cluster: the operator signs it."""
        if not self._directory.has(declared.RESOLVER) or self._directory.has(declared.OPERATOR):
            return
        if declared.OPERATOR in self._brought or nats_operator.stays(self._directory, ref):
            return
        name = self._directory.path / declared.OPERATOR
        raise SecretsProblem(
            f"{name} is missing, and signs the accounts in {declared.RESOLVER}", nats_operator.BRING_BACK
        )

    def _read_brought(self, known: Mapping[str, Declared]) -> dict[str, bytes]:
        contents = {}
        for name, file in self._brought.items():
            if name not in known:
                raise SecretsProblem(f"there is no secret {name}", _names(known.values()))
            if (accepts := known[name].accepts) is None:
                raise SecretsProblem(f"{name} cannot be brought", "it follows from other secrets, which may be brought")
            if self._directory.has(name) and name not in self._replace:
                raise SecretsProblem(f"{name} is there already", f"replace it with --replace {name}")
            try:
                content = file.read_bytes()
            except OSError as error:
                raise SecretsProblem(f"{file} cannot be read ({os.strerror(error.errno or 0)})") from None
            if not accepts(content):
                raise SecretsProblem(f"{file} does not hold a valid {name}", known[name].purpose)
            contents[name] = content
        return contents

    def _new(self, secret: Declared, ref: ClusterRef | None) -> bytes:
        name = secret.name
        if (kind := _kind(name)) is not None:
            return f"{Key.new(kind).seed}\n".encode()
        if name == declared.AUTHORITY:
            return Key.new("O").seed.encode()
        if name == declared.RESOLVER:
            return nats_operator.resolver(self._directory, ref).encode()
        if name.startswith("nats/"):
            service = name.removeprefix("nats/").removesuffix(".creds")
            days, (key,) = self._lifetimes.central_days, secret.made_from
            return nats_operator.central_credentials(service, self._key(key), days).encode()
        if ref is not None and name == declared.agent_credentials(ref):
            return nats_operator.agent_credentials(self._directory, ref, self._lifetimes.agent_days).encode()
        if name.endswith("/slurm.key"):
            return os.urandom(_SLURM_KEY_BYTES)
        if name.endswith("/agent-key"):
            return new_key().encode()
        # Text without white space at its ends: some readers strip it, and others do not.
        return secrets.token_urlsafe(48).encode()

    def _key(self, name: str) -> Key:
        return Key.read(self._directory.read(name, nats_operator.BRING_BACK), _KINDS[name], name)


def _kind(name: str) -> str | None:
    """The kind of a key of NATS; None for any other secret."""
    return "A" if name.endswith("/account.nk") else _KINDS.get(name)


def _names(every: Iterable[Declared]) -> str:
    return f"there are: {', '.join(secret.name for secret in every)}"
