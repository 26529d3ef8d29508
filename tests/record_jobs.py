"""`make record-jobs`: record what a real Slurm answers to the job cases, into `recorded/jobs.json`.

Run it when a case is added, or when Slurm or its configuration is another one, and read the difference.
"""

import asyncio
import tempfile
from pathlib import Path

from job_cases import CASES
from job_recorder import RECORDED, job_recorder, written


async def main() -> None:
    """Record all cases."""
    with tempfile.TemporaryDirectory() as directory:
        async with job_recorder(Path(directory)) as recorder:
            answers = await recorder.record(CASES)
    RECORDED.parent.mkdir(exist_ok=True)
    RECORDED.write_text(written(answers))
    print(f"{RECORDED.relative_to(Path.cwd())}: {len(answers)} cases")


if __name__ == "__main__":
    asyncio.run(main())
