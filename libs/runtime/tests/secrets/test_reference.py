"""References to secrets: what they mean, and what the error for a wrong one says."""

from pathlib import Path

import pytest
from clusterra_runtime.secrets.reference import (
    AwsSecret,
    CheckedReference,
    EnvironmentSecret,
    FileSecret,
    InvalidReference,
    KubernetesSecret,
    Source,
    parse,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

ARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:acme/jwt-AbCdEf"


@pytest.mark.parametrize(
    ("reference", "source"),
    [
        ("file:/run/keys/jwt", FileSecret(Path("/run/keys/jwt"))),
        ("env:CLUSTERRA_SECRET_JWT", EnvironmentSecret("CLUSTERRA_SECRET_JWT")),
        (
            "kubernetes:tenant-acme/slurm-keys/jwt_hs256.key",
            KubernetesSecret("tenant-acme", "slurm-keys", "jwt_hs256.key"),
        ),
        ("aws-secretsmanager:acme/jwt", AwsSecret("acme/jwt", None, None)),
        ("aws-secretsmanager:acme/keys#jwt", AwsSecret("acme/keys", None, "jwt")),
        (f"aws-secretsmanager:{ARN}", AwsSecret(ARN, "eu-west-1", None)),
        (f"aws-secretsmanager:{ARN}#jwt", AwsSecret(ARN, "eu-west-1", "jwt")),
    ],
)
def test_a_reference_names_its_source(reference: str, source: Source) -> None:
    assert parse(reference) == source


@pytest.mark.parametrize(
    ("reference", "form"),
    [
        ("file:relative", "file:/absolute/path"),
        ("file:/run/x\0y", "file:/absolute/path"),
        ("file:/etc/clusterra/../shadow", "without `..`"),
        ("env:AWS_SECRET_ACCESS_KEY", "env:CLUSTERRA_SECRET_<NAME>"),
        ("env:CLUSTERRA_SECRET_", "env:CLUSTERRA_SECRET_<NAME>"),
        ("kubernetes:slurm/jwt", "kubernetes:<namespace>/<secret>/<key>"),
        ("kubernetes:../x/y", "kubernetes:<namespace>/<secret>/<key>"),
        ("kubernetes:a/b/c/d", "kubernetes:<namespace>/<secret>/<key>"),
        ("kubernetes:a/b/c?x=y", "kubernetes:<namespace>/<secret>/<key>"),
        ("aws-secretsmanager:a b", "aws-secretsmanager:<name or ARN>"),
        ("aws-secretsmanager:a#", "aws-secretsmanager:<name or ARN>"),
    ],
)
def test_a_malformed_reference_is_told_the_expected_form(reference: str, form: str) -> None:
    with pytest.raises(InvalidReference, match=r"must have the form ") as caught:
        parse(reference)
    assert form in str(caught.value)
    with pytest.raises(ValidationError, match="must have the form"):
        TypeAdapter(CheckedReference).validate_python(reference)


def test_a_secret_that_was_written_in_place_of_a_reference_is_not_repeated() -> None:
    with pytest.raises(InvalidReference, match="kubernetes:<namespace>") as caught:
        parse("vault:hunter2")
    assert "hunter2" not in str(caught.value)


@given(st.text(max_size=80))
def test_the_parts_of_a_kubernetes_reference_cannot_leave_their_place_in_a_path(text: str) -> None:
    try:
        source = parse(f"kubernetes:{text}")
    except InvalidReference:
        return
    assert isinstance(source, KubernetesSecret)
    for part in (source.namespace, source.name, source.key):
        assert part not in {".", ".."} or part == source.key
        assert not set("/?#%\\ \n") & set(part)
