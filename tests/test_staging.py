"""Files of jobs on the whole lab: staged in before the start, staged out after the end, and browsed at the edge."""

import os
import secrets
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from clusterra_contracts.identity import SlurmUser, now
from clusterra_gateway.files.paths import FilePath, KeySpace
from clusterra_gateway.staging.staging import Staging
from clusterra_gateway.staging.staging_records import StagingRecords
from clusterra_gateway.submission.staged_files import Input, Output
from clusterra_lab.machine.process import until
from clusterra_lab.parts.bucket import BUCKET
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from clusterra_runtime.store.dynamodb import DynamoDBStore
from staged_files import cluster_path, detail, downloaded, staging_over, uploaded

JOB = {"environment": ["PATH=/usr/bin:/bin"], "memory_per_cpu": 512}
SECRET = "not ada's\n"


async def submitted(lab: Stack, user: User, script: str, folder: str, **staged: Any) -> tuple[int, dict[str, Any]]:
    job = JOB | {"name": "staged", "current_working_directory": folder}
    body = {"script": f"#!/bin/sh\n{script}\n", "job": job, **staged}
    async with user.session.post(cluster_path(lab, "jobs/submit"), json=body) as answer:
        return answer.status, await answer.json()


async def listed(lab: Stack, user: User, path: str, **page: Any) -> tuple[int, dict[str, Any]]:
    async with user.session.get(cluster_path(lab, "folders"), params={"path": path, **page}) as answer:
        return answer.status, await answer.json()


def owned_by(path: Path, uid: int, mode: int) -> Path:
    os.chown(path, uid, uid)
    path.chmod(mode)
    return path


async def test_inputs_are_there_when_the_job_starts_and_outputs_are_in_the_bucket(lab: Stack, ada: User) -> None:
    await uploaded(lab, ada, "data/staged/x.csv", b"sample,reads\nA,12\n")
    script = "mkdir results && sort in/x.csv >results/a.txt && echo $0 >results/deep.log && : >results/empty.txt"

    status, answer = await submitted(
        lab,
        ada,
        script,
        "staged-whole",
        stage_in=[{"source": "data/staged/x.csv", "destination": "in/x.csv"}],
        stage_out=[
            {"source": "results/*.txt", "destination": "outputs/run1/"},
            {"source": "results/**/*.log", "destination": "outputs/logs"},
        ],
    )
    assert status == 201, answer
    staging = await staging_over(lab, ada, answer["job_id"])

    assert answer["warnings"] == []
    assert (staging["state"], staging["files"], staging["errors"]) == ("done", 4, []), staging
    assert (staging["stage_in"]["files"], staging["stage_out"]["files"]) == (1, 3)
    assert staging["stage_out"]["rules"] == [
        {"source": "results/*.txt", "destination": "outputs/run1"},
        {"source": "results/**/*.log", "destination": "outputs/logs"},
    ]
    copied = {file["path"]: file["size"] for file in staging["stage_out"]["copied"]}
    assert set(copied) == {"outputs/run1/a.txt", "outputs/run1/empty.txt", "outputs/logs/deep.log"}
    assert (copied["outputs/run1/a.txt"], copied["outputs/run1/empty.txt"]) == (18, 0)
    assert await downloaded(lab, ada, "outputs/run1/a.txt") == b"A,12\nsample,reads\n"
    assert await downloaded(lab, ada, "outputs/run1/empty.txt") == b""
    assert b"slurm_script" in (await downloaded(lab, ada, "outputs/logs/deep.log") or b"")
    assert (lab.slurm.shared_dir / "staged-whole/in/x.csv").stat().st_uid == ada.profile.uid

    async def told() -> bool:
        query = {"kind": "job.staged", "subject": answer["job_id"]}
        async with ada.session.get(cluster_path(lab, "events"), params=query) as events:
            facts = [event["data"] for event in (await events.json())["events"]]
        shown = [(fact["direction"], fact["state"], fact["files"]) for fact in facts]
        return shown == [("in", "done", 1), ("out", "done", 3)]

    await until(told, seconds=90, every=0.3, what="the events of both directions")
    for service in lab.services.values():
        assert "X-Amz-Signature" not in service.log.read_text()


async def test_a_submit_with_files_that_is_sent_again_makes_no_second_job(lab: Stack, ada: User) -> None:
    body = {
        "script": "#!/bin/sh\necho once >once.txt\n",
        "job": JOB | {"current_working_directory": "staged-once"},
        "stage_out": [{"source": "once.txt", "destination": "outputs/once"}],
    }
    headers = {"Idempotency-Key": secrets.token_hex(8)}

    answers: list[tuple[int, dict[str, Any]]] = []
    for sent in (body, body, body | {"stage_out": [{"source": "*", "destination": "outputs/once"}]}):
        async with ada.session.post(cluster_path(lab, "jobs/submit"), json=sent, headers=headers) as answer:
            answers.append((answer.status, await answer.json()))

    (first_status, first), (again_status, again), (other_status, other) = answers
    assert (first_status, again_status, other_status) == (201, 201, 422), answers
    assert (first["job_id"], again["repeated"]) == (again["job_id"], True)
    assert other["type"].endswith("key-reused")
    assert (await staging_over(lab, ada, first["job_id"]))["state"] == "done"
    assert await downloaded(lab, ada, "outputs/once/once.txt") == b"once\n"


async def test_a_job_without_its_input_or_with_a_wrong_path_is_refused_by_the_field(lab: Stack, ada: User) -> None:
    missing = [{"source": "data/none.csv", "destination": "x"}]
    places = {
        "#/stage_in/0/source": {"stage_in": missing},
        "#/stage_out/0/destination": {"stage_out": [{"source": "a", "destination": "elsewhere/"}]},
        "#/stage_out/0/source": {"stage_out": [{"source": "../a", "destination": "outputs/"}]},
        "#/stage_in/0/destination": {"stage_in": [{"source": "data/x", "destination": "/etc/passwd"}]},
    }

    answers = {place: await submitted(lab, ada, "true", "refused", **staged) for place, staged in places.items()}

    for place, (status, answer) in answers.items():
        assert status == 400, answer
        assert [error["pointer"] for error in answer["errors"]] == [place], answer


async def test_an_array_has_its_inputs_before_its_first_task_and_its_outputs_after_its_last(
    lab: Stack, ada: User
) -> None:
    await uploaded(lab, ada, "data/staged/rows.txt", b"a\nb\nc\n")
    task = "${SLURM_ARRAY_TASK_ID}"
    script = f"#SBATCH --array=1-3%1\nmkdir -p out; sed -n {task}p rows.txt >out/{task}.txt; test {task} != 2"

    status, answer = await submitted(
        lab,
        ada,
        script,
        "staged-array",
        stage_in=[{"source": "data/staged/rows.txt", "destination": "rows.txt"}],
        stage_out=[{"source": "out/*", "destination": "outputs/array"}],
    )
    assert status == 201, answer
    staging = await staging_over(lab, ada, answer["job_id"])
    whole, last = [await detail(lab, ada, each) for each in (answer["job_id"], f"{answer['job_id']}_3")]

    assert (staging["state"], staging["stage_in"]["files"], staging["stage_out"]["files"]) == ("done", 1, 3), staging
    assert (whole["state"], last["state"], last["staging"]) == ("FAILED", "COMPLETED", staging)
    copied = [await downloaded(lab, ada, f"outputs/array/{number}.txt") for number in (1, 2, 3)]
    assert copied == [b"a\n", b"b\n", b"c\n"]


async def test_links_and_files_of_others_are_not_staged_out(lab: Stack, ada: User) -> None:
    foreign = lab.slurm.shared_dir / "foreign.txt"
    foreign.write_text(SECRET)
    owned_by(foreign, ada.profile.uid + 1, 0o600)
    links = (
        "ln -s ../foreign.txt out/link.txt; ln -s /etc/shadow out/shadow.txt; ln -s /etc out/etc; mkfifo out/pipe.txt"
    )
    script = f"mkdir out; {links}; ln -s / top; echo good >out/good.txt"

    _, answer = await submitted(
        lab,
        ada,
        script,
        "staged-links",
        stage_out=[
            {"source": "out/**", "destination": "outputs/links"},
            {"source": "top/etc/passwd", "destination": "outputs/links"},
        ],
    )
    staging = await staging_over(lab, ada, answer["job_id"])

    assert (staging["state"], staging["files"], staging["failed_files"]) == ("failed", 1, 4), staging
    assert any("link" in error for error in staging["errors"])
    async with ada.session.get(cluster_path(lab, "files"), params={"path": "outputs/links"}) as listing:
        files = (await listing.json())["files"]
    assert [file["path"] for file in files] == ["outputs/links/good.txt"]


async def test_an_input_that_cannot_be_written_cancels_the_job_and_says_why(lab: Stack, ada: User) -> None:
    await uploaded(lab, ada, "data/staged/y.csv", b"y")
    theirs = lab.slurm.shared_dir / "theirs"
    theirs.mkdir(exist_ok=True)
    owned_by(theirs, ada.profile.uid + 1, 0o755)

    status, answer = await submitted(
        lab, ada, "true", "theirs", stage_in=[{"source": "data/staged/y.csv", "destination": "y.csv"}]
    )
    assert status == 201, answer
    staging = await staging_over(lab, ada, answer["job_id"])

    assert staging["state"] == "failed"
    assert staging["errors"] == ["data/staged/y.csv: Permission denied"]

    async def cancelled() -> bool:
        job = await detail(lab, ada, answer["job_id"])
        return bool(job["state"] == "CANCELLED")

    await until(cancelled, seconds=90, every=0.3, what="the cancel of the job")
    async with ada.session.get(cluster_path(lab, f"jobs/{answer['job_id']}/why")) as why:
        assert "could not be staged in" in (await why.json())["text"]


async def test_an_agent_that_dies_in_the_middle_of_a_large_output_goes_on(lab: Stack, ada: User) -> None:
    size = 200 * 1024 * 1024
    script = f"truncate --size={size} big.bin; printf end >>big.bin; echo small >small.txt"
    _, answer = await submitted(
        lab, ada, script, "staged-large", stage_out=[{"source": "*.*", "destination": "outputs/large"}]
    )
    storage = boto3.client(
        "s3",
        endpoint_url=lab.aws.endpoint_url,
        region_name=lab.aws.region,
        aws_access_key_id=lab.aws.access_key_id,
        aws_secret_access_key=lab.aws.secret_access_key,
        config=Config(s3={"addressing_style": "path"}),
    )

    def begun() -> set[str]:
        uploads = storage.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
        return {each["UploadId"] for each in uploads if each["Key"].endswith("outputs/large/big.bin")}

    first = await until(begun, seconds=90, every=0.05, what="the beginning of the upload")
    lab.services["edge-agent"].kill()
    await lab.services["edge-agent"].start()
    await lab.services["edge-agent"].ready()
    after_the_death = begun()
    staging = await staging_over(lab, ada, answer["job_id"])

    assert (staging["state"], staging["files"], staging["bytes"]) == ("done", 2, size + 3 + 6), staging
    assert (after_the_death, begun()) == (first, set())
    big = await downloaded(lab, ada, "outputs/large/big.bin")
    assert big is not None
    assert (len(big), big[-3:]) == (size + 3, b"end")


async def test_a_held_job_whose_gateway_died_at_the_submit_is_found_and_staged(
    lab: Stack, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = f"died-{secrets.token_hex(8)}"
    await uploaded(lab, ada, "data/staged/z.csv", b"z\n")
    folder = JOB | {"current_working_directory": "died", "name": "died", "hold": True}
    submitted_job = await ada.submit("#!/bin/sh\nsort x >y\n", folder, key=key)
    async with ada.session.get(cluster_path(lab, "files"), params={"path": "data/staged"}) as answer:
        page = await answer.json()
        (known,) = [file for file in page["files"] if file["path"] == "data/staged/z.csv"]
        member = page["owner"]["id"]
    file = FilePath("data", "staged/z.csv")
    input_file = Input(
        source=file.shown,
        key=KeySpace(lab.cluster, member).key(file),
        destination="x",
        size=known["size"],
        etag=known["etag"],
    )
    # As the gateway stores it before it submits the job, some minutes ago.
    at = now() - timedelta(minutes=3)
    left = Staging(
        id=secrets.token_hex(16),
        member=member,
        user=SlurmUser(name=ada.profile.name, uid=ada.profile.uid, gid=ada.profile.uid),
        job_name="died",
        key=key,
        digest="",
        created_at=at,
        progressed_at=at,
        folder="died",
        inputs=(input_file,),
        outputs=(Output(source="y", destination="outputs/died"),),
    )
    for name, value in lab.aws.environment().items():
        monkeypatch.setenv(name, value)
    async with DynamoDBStore(table_prefix="clusterra-") as store:
        assert await StagingRecords(store).create(lab.cluster, left)

        async def found() -> bool:
            return (await detail(lab, ada, submitted_job.job_id))["staging"] is not None

        await until(found, seconds=60, every=0.3, what="the job of the staging")
        staging = await staging_over(lab, ada, submitted_job.job_id)

    assert (staging["state"], staging["files"]) == ("done", 2), staging
    assert await downloaded(lab, ada, "outputs/died/y") == b"z\n"


async def test_people_browse_what_their_own_user_may_read(lab: Stack, ada: User) -> None:
    shared = lab.slurm.shared_dir
    mine, private = shared / "browse", shared / "browse-private"
    for folder, uid, mode in ((mine, ada.profile.uid, 0o755), (private, ada.profile.uid + 1, 0o700)):
        folder.mkdir()
        owned_by(folder, uid, mode)
    for number in range(5):
        owned_by_ada = mine / f"file{number}.txt"
        owned_by_ada.write_text(f"content {number}\n")
    (private / "secret.txt").write_text(SECRET)
    (mine / "way-out").symlink_to("/etc")
    (mine / os.fsdecode(b"not-\xff-utf8")).mkdir()

    status, first = await listed(lab, ada, "browse", limit=4)
    _, rest = await listed(lab, ada, "browse", limit=4, cursor=first["next_cursor"])

    assert status == 200, first
    assert [(entry["name"], entry["kind"]) for entry in first["entries"]] == [
        (f"file{number}.txt", "file") for number in range(4)
    ]
    assert [(entry["name"], entry["kind"]) for entry in rest["entries"]] == [
        ("file4.txt", "file"),
        ("way-out", "other"),
    ]
    assert (rest["unreadable"], rest["next_cursor"]) == (1, None)
    for path in ("browse-private", "browse/way-out", "browse/way-out/ssl", "nowhere"):
        assert (await listed(lab, ada, path))[0] == 404, path
    for path in ("..", "browse/../..", "/etc", "browse//file1.txt", "a/./b"):
        assert (await listed(lab, ada, path))[0] == 400, path
    assert await content(lab, ada, "browse/file1.txt") == (200, b"content 1\n")
    assert await content(lab, ada, "browse/file1.txt", "bytes=8-8") == (206, b"1")
    for path in ("browse-private/secret.txt", "browse/way-out/passwd", "browse"):
        assert (await content(lab, ada, path))[0] == 404, path


async def content(lab: Stack, user: User, path: str, wanted: str | None = None) -> tuple[int, bytes]:
    headers = {} if wanted is None else {"Range": wanted}
    url = cluster_path(lab, "folders/content")
    async with user.session.get(url, params={"path": path}, headers=headers) as answer:
        return answer.status, await answer.read()
