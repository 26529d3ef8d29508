"""The bucket with the files of the lab's people, and how the gateway gets at it."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from clusterra_lab.machine.problem import LabProblem
from clusterra_lab.machine.secret_file import write_secret
from clusterra_lab.parts.aws import Aws

if TYPE_CHECKING:
    from types_boto3_s3.type_defs import CORSRuleTypeDef

BUCKET = "clusterra-lab"
_ANY_PAGE: "CORSRuleTypeDef" = {
    "AllowedMethods": ["GET", "PUT"],
    "AllowedOrigins": ["*"],
    "AllowedHeaders": ["*"],
    "ExposeHeaders": ["ETag"],
}


async def made_bucket(aws: Aws) -> None:
    """Make the bucket unless it exists, and let pages of any origin use presigned URLs. Raises LabProblem."""
    try:
        await asyncio.to_thread(_make, aws)
    except (ClientError, BotoCoreError) as error:
        raise LabProblem(f"the bucket {BUCKET} cannot be made at {aws.endpoint_url}: {error}") from error


def storage(aws: Aws, secrets: Path) -> dict[str, object]:
    """The storage of a cluster in the provision file; the keys are written to files in the folder `secrets`."""
    files = {"access_key_id": aws.access_key_id, "secret_access_key": aws.secret_access_key}
    for name, value in files.items():
        write_secret(secrets / f"s3-{name}", value)
    references = {name: f"file:{secrets / f's3-{name}'}" for name in files}
    return {
        "bucket": BUCKET,
        "region": aws.region,
        "endpoint": aws.endpoint_url,
        "credentials": {"kind": "keys", **references},
    }


def _make(aws: Aws) -> None:
    s3 = boto3.client(
        "s3",
        endpoint_url=aws.endpoint_url,
        region_name=aws.region,
        aws_access_key_id=aws.access_key_id,
        aws_secret_access_key=aws.secret_access_key,
        config=Config(s3={"addressing_style": "path"}),
    )
    with suppress(s3.exceptions.BucketAlreadyOwnedByYou):
        s3.create_bucket(Bucket=BUCKET)
    s3.put_bucket_cors(Bucket=BUCKET, CORSConfiguration={"CORSRules": [_ANY_PAGE]})
    s3.close()
