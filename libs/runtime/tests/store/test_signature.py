"""Signatures of requests: the same as botocore's, for any request, region, credentials and endpoint."""

from datetime import UTC, datetime
from unittest import mock

import botocore.auth
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from clusterra_runtime.store.dynamodb_signature import Credentials, Signer
from hypothesis import given
from hypothesis import strategies as st

keys = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
hosts = st.sampled_from(["dynamodb.eu-west-1.amazonaws.com", "127.0.0.1:4566", "[::1]:8000"])
moments = st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2099, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(
    body=st.binary(max_size=50),
    credentials=st.builds(Credentials, keys, keys, st.none() | keys),
    region=st.sampled_from(["eu-west-1", "us-gov-east-1"]),
    host=hosts,
    at=moments,
)
def test_a_signature_is_botocores(body: bytes, credentials: Credentials, region: str, host: str, at: datetime) -> None:
    signer = Signer(region, host, "/")

    headers = signer.headers("GetItem", body, credentials, at)

    unsigned = {name: value for name, value in headers.items() if name not in ("authorization", "host", "x-amz-date")}
    unsigned.pop("x-amz-security-token", None)
    request = AWSRequest("POST", f"http://{host}/", headers=unsigned, data=body)
    with mock.patch.object(botocore.auth, "get_current_datetime", return_value=at.replace(tzinfo=None)):
        SigV4Auth(BotocoreCredentials(*credentials), "dynamodb", region).add_auth(request)
    assert headers["authorization"] == request.headers["Authorization"]
    assert headers["x-amz-date"] == request.headers["X-Amz-Date"]


def test_another_day_and_another_key_have_another_signature() -> None:
    signer = Signer("eu-west-1", "h", "/")
    today, tomorrow = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    first, second = Credentials("a", "b", None), Credentials("a", "c", None)

    signed = [
        signer.headers("GetItem", b"", credentials, at)["authorization"].rpartition("=")[2]
        for credentials, at in ((first, today), (first, tomorrow), (second, tomorrow), (first, today))
    ]

    assert len(set(signed)) == 3
    assert signed[0] == signed[3]


def test_credentials_hide_their_secrets() -> None:
    assert "hidden" not in repr(Credentials("visible", "hidden", "hidden too"))
