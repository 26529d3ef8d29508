"""Where the DynamoDB adapter takes the region from."""

from pathlib import Path

import pytest
from botocore.session import Session
from clusterra_runtime.store import dynamodb_client
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.store import StoreError


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("environment", "region"),
    [
        ({"AWS_REGION": "eu-west-1"}, "eu-west-1"),
        ({"AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-2"),
        ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-1"),
        ({"AWS_REGION": "", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-2"),
    ],
)
def test_aws_region_comes_before_boto3s_own_variable(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], region: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    client = dynamodb_client._connect(Session())

    assert client.meta.region_name == region
    client.close()


async def test_without_a_region_the_error_names_the_variable() -> None:
    with pytest.raises(StoreError, match="AWS_REGION"):
        await DynamoDBStore().__aenter__()
