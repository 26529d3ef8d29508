"""A job that no Slurm could take is a malformed request, and leaves its Idempotency-Key free."""

from typing import Any
from uuid import uuid4

import pytest
from clusterra_lab.parts.user import User


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ("", {"time_limit": {"set": True, "number": 2**64}}),
        ("", {"nodes": "1-99999999999999"}),
        ("#SBATCH --nodes=" + "9" * 5000 + "\n", {}),
        ("", {"environment": ["A=b"] * 1001}),
    ],
)
async def test_an_impossible_job_is_refused_and_its_key_is_free(
    ada: User, options: str, fields: dict[str, Any]
) -> None:
    url = f"/v1/clusters/{ada.cluster}/jobs/submit"
    key = {"Idempotency-Key": f"impossible-{uuid4().hex}"}
    job = {"environment": ["PATH=/bin"], "hold": True}

    async with ada.session.post(
        url, json={"script": f"#!/bin/sh\n{options}", "job": job | fields}, headers=key
    ) as answer:
        assert answer.status == 400
        assert (await answer.json())["hint"]

    async with ada.session.post(url, json={"script": "#!/bin/sh\n", "job": job}, headers=key) as answer:
        assert answer.status == 201
