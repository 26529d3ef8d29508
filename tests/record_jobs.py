"""`make record-jobs`: writes the answers of a real Slurm to the job cases to `recorded/jobs.json`.

Run it after adding a case or changing Slurm or its configuration, and review the difference.
"""

import asyncio
import tempfile
from pathlib import Path

from job_cases import CASES
from job_recorder import RECORDED, file_content, job_recorder


async def main() -> None:
    """Record all cases."""
    with tempfile.TemporaryDirectory() as directory:
        async with job_recorder(Path(directory)) as recorder:
            answers = await recorder.record(CASES)
    RECORDED.parent.mkdir(exist_ok=True)
    RECORDED.write_text(file_content(answers))
    print(f"{RECORDED.relative_to(Path.cwd())}: {len(answers)} cases")


if __name__ == "__main__":
    asyncio.run(main())
