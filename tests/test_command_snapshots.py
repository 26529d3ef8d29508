"""Every command of `clusterra` on the lab: what it prints for people and as JSON is held by snapshots."""

import asyncio
import json
import re
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from authority_stand_in import signing
from clusterra.credentials import FixedToken
from clusterra.target import Target
from clusterra_cli.spool.folder import Spool
from clusterra_cli.spool.submits import keep
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import ApiToken, User
from clusterra_lab.stack.stack import LabOptions, Stack, stack
from command_line import CommandLine, Ran
from command_snapshots import FOLDER, Leaf, Rule, Snapshot, called, leaves, rule
from program_sign_in import decide
from session_client import asked, published, until_ready
from webhook_receiver import receiver

SCRIPT = "#!/bin/sh\n#SBATCH --time=5\necho hello $1\n"
WORKFLOW = {
    "run_name": "nightly",
    "steps": [
        {"step_id": "get", "script": "#!/bin/sh\ntrue\n", "job": {"environment": ["PATH=/usr/bin:/bin"]}},
        {"step_id": "report", "script": "#!/bin/sh\nexit 3\n", "job": {"environment": ["PATH=/usr/bin:/bin"]}},
    ],
}
RECORDS = """\
JobID|User|State|Submit|Start|End|ElapsedRaw|NNodes|ReqCPUS|ReqMem
1|ada|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T01:01:00|3600|1|2|2G
2|ada|COMPLETED|soon|2026-01-01T00:01:00|2026-01-01T01:01:00|3600|1|2|2G
"""
"""Of `sacct -P`."""
NEW_JOB = rule(
    "the id of a job that the command has made",
    r'(?<=job )\d+|(?<=session )\d+|(?<=open )\d+|(?<="job_id": ")\d+|(?<="job_id":")\d+|(?<="last_job": ")\d+',
    "<job>",
)
BARE_JOB = rule("the same alone", r"(?m)^\d+$", "<job>")
SENT_JOB = rule("the job of a spooled submit", r"(?<=  main  ) *\d+\b", digits=True)
STEP_JOB = rule("the job of a step", r"(?:completed|failed) +\d+(?=  [A-Z])", digits=True)
UNDER_WAY = rule(
    "how far a new run is",
    r'"(state|job_state)": "(?:active|submitting|submitted|waiting|PENDING|RUNNING|COMPLETED)?"',
    r'"\1": "<under way>"',
)
PASSING = rule(
    "a state that a step may pass unseen",
    r"(?m)^(get|report)  (waiting|submitting|submitted).*\n"
    r'|^\{"step":\{[^\n]*"state":"(waiting|submitting|submitted)".*\n',
)
WORKER = rule("the name of a worker", r"\b((?:compute|general|memory)-[a-z]+)-[a-z0-9]{5}\b", r"\1-00000")
ALTERNATIVES = rule(
    "the alternatives of an estimate, whose costs follow from the boots and run times that were seen",
    r'(?s)"alternatives": \[\n.*?\n  \]',
    '"alternatives": "<alternatives>"',
)
SECONDS = rule("the time between two stages", r'(?<="seconds_since_previous": )[0-9.]+', "0.0")
SECRET = rule("the secret of a link", r"clk_[A-Za-z0-9_-]+", "<secret>")
FORMS = ("", "--json", "--quiet")
BUS_CREDENTIAL = (rule("the id of a bus credential", r"bc_[0-9a-f]{16}", f"bc_{'0' * 16}"),)
WEBHOOK = (
    rule("the secret of a webhook", r"whsec_[A-Za-z0-9+/]+=*", "<secret>"),
    rule("the id of a webhook", r"wh_[0-9a-f]{16}", f"wh_{'0' * 16}"),
    rule("the time of an attempt", r'(?<="seconds": )[0-9.e-]+', "0.0"),
)


@dataclass(frozen=True)
class Site:
    """The lab with some jobs of ada, who is an admin, and what her commands need."""

    ada: User
    folder: Path
    variables: Mapping[str, str]
    names: Mapping[str, str]

    async def __call__(self, *arguments: str, stdin: str = "") -> Ran:
        """Run a command as ada."""
        return await asyncio.to_thread(called, arguments, self.variables, stdin)

    async def record(self, name: str, *calls: str, rules: Sequence[Rule] = (), stdin: str = "") -> list[Ran]:
        """Run the calls of a command, whose words are written as for a shell, and compare them with its snapshot."""
        snapshot, ran = Snapshot(name, self.names, rules), []
        for each in calls:
            arguments = (*name.split(), *shlex.split(each))
            ran.append(await self(*arguments, stdin=stdin))
            snapshot.add(arguments, ran[-1])
        snapshot.check()
        return ran


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """A lab of this file's own: its jobs count from 1."""
    environment = {"CLUSTERRA_COST_NOTE_SECONDS": "1", "CLUSTERRA_WEBHOOK_NETWORKS": '["127.0.0.0/8"]'}
    options = LabOptions(ScalingPolicy(idle_seconds=600.0), environment=environment, fresh=True)
    async with stack(tmp_path_factory.mktemp("snapshots"), options) as running:
        yield running


@pytest.fixture(scope="module")
async def site(lab: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    folder = tmp_path_factory.mktemp("home")
    (folder / "hello.sh").write_text(SCRIPT)
    (folder / "nightly.json").write_text(json.dumps(WORKFLOW))
    async with lab.user("ada@acme.example") as ada, lab.user("grace@acme.example"):
        token = await _token(ada)
        variables = {
            "CLUSTERRA_URL": lab.gateway_url,
            "CLUSTERRA_TOKEN": token.token,
            "CLUSTERRA_CLUSTER": ada.cluster,
            "CLUSTERRA_CONFIG": str(folder / "config.toml"),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        }
        names = {
            str(folder): "<home>",
            str(lab.home.directory): "<lab>",
            lab.gateway_url: "<gateway>",
        }
        site = Site(ada, folder, variables, names)
        for scope in ("quotas", "budgets"):
            async with ada.session.put(f"/v1/{scope}/user/ada", json={"limit": "1000"}) as answer:
                assert answer.status < 300, await answer.text()
        page = Path(__file__).with_name("session_page.yaml").read_text()
        async with published(ada, page):
            await _jobs(site)
            yield site


async def _token(user: User) -> ApiToken:
    """A token of a person."""
    async with user.session.post("/v1/users/me/tokens", json={"name": "laptop"}) as answer:
        assert answer.status == 201, await answer.text()
        return ApiToken.model_validate(await answer.json())


async def _used_token(site: Site) -> ApiToken:
    """A token of ada that was used. It is noted of all her tokens that they were."""
    token = await _token(site.ada)
    program = Site(site.ada, site.folder, {**site.variables, "CLUSTERRA_TOKEN": token.token}, site.names)
    assert (await program("clusters")).code == 0

    async def is_noted() -> bool:
        async with site.ada.session.get("/v1/users/me/tokens") as answer:
            return all(each["last_used_at"] for each in (await answer.json())["tokens"])

    await until(is_noted, seconds=90, what="the uses of the tokens to be noted")
    return token


async def _jobs(site: Site) -> None:
    """Job 1 has failed, 2 runs, 3 is held, and 4 is an array that is held."""
    ada = site.ada
    submitted = [
        await ada.submit("#!/bin/sh\necho one\necho two\nexit 3\n", {"name": "first", "time_limit": 5}),
        await ada.submit("#!/bin/sh\nsleep 3600\n", {"name": "long", "time_limit": 300}),
        await ada.submit(SCRIPT, {"name": "held", "time_limit": 5, "hold": True}),
        await ada.submit(SCRIPT, {"name": "tasks", "time_limit": 5, "array": "1-9", "hold": True}),
    ]
    assert [each.job_id for each in submitted] == ["1", "2", "3", "4"]
    for job_id, state in (("1", "FAILED"), ("2", "RUNNING")):

        async def reached(job_id: str = job_id, state: str = state) -> bool:
            job = await asked(ada, "GET", f"/v1/clusters/{ada.cluster}/jobs/{job_id}")
            return bool(job["state"] == state and job["reason"] != "Prolog")

        await until(reached, seconds=150, what=f"job {job_id} to be {state}", every=0.3)

    async def priced() -> bool:
        job = await asked(ada, "GET", f"/v1/clusters/{ada.cluster}/jobs/1")
        profile = await asked(ada, "GET", "/v1/users/me")
        costs = (job["cost"], profile["costs"])
        known = all(each is not None and not each["stale"] and not each["unknown"] for each in costs)
        return known and profile["running_jobs"] == 1 and profile["burn_rate_usd_per_hour"]

    await until(priced, seconds=90, what="the costs of the jobs", every=0.3)


async def test_looking(site: Site) -> None:
    await site.record("whoami", "", "--json")
    await site.record("clusters", *FORMS)
    await site.record("shapes", *FORMS)
    await site.record("nodes", *FORMS, rules=(WORKER,))
    await site.record("workers", *FORMS, rules=(WORKER,))
    lists = [f"--sort=submitted {form}" for form in FORMS]
    await site.record("jobs", *lists, "--state=pending --sort=submitted --format=id,name,limit", rules=(WORKER,))
    await site.record("job", "1", "1 --json", "99", "'4_[1-2]'", rules=(WORKER,))
    await site.record("why", "1", "1 --json", "3", rules=(WORKER,))
    await site.record("logs", "1", "1 --json", "1 --tail=1", "1 --follow", "1 --follow --json")
    await site.record("wait", "1", "1 --json", "1 --follow", "2 --timeout=0.1", "99", "1 2 --follow", rules=(WORKER,))
    wanted = "--subject=1 --kind=job.failed"
    await site.record("events", wanted, f"{wanted} --json", rules=(WORKER,))
    await site.record(
        "events export", "--kind=job.failed", "--all-clusters --kind=job.failed", "--format=parquet", rules=(WORKER,)
    )
    await site.record("templates", "small-page", "small-page --json", "absent")
    await site.record("api", "GET /v1/clusters/{cluster}/jobs/99", "GET /v1/problems/not-found", "FETCH /v1")


async def test_what_a_job_was(site: Site) -> None:
    async def kept() -> bool:
        told = await site("timeline", "1")
        complete = all(stage in told.out for stage in ("decided", "worker_started", "registered", "running", "ended"))
        return complete and (await site("script", "1")).code == 0

    await until(kept, seconds=90, what="the script in Slurm's accounting, and the job's events")
    await site.record("script", "1", "1 --json", "99")
    await site.record("timeline", "1", "1 --json", "99", rules=(WORKER, SECONDS))


async def test_sharing(site: Site) -> None:
    calls = ("1", "1 --shows=output,cost --days=1 --name=review --json", "1 --shows=all", "99")
    await site.record("share", *calls, rules=(SECRET,))
    review, other = sorted(
        (await asked(site.ada, "GET", "/v1/users/me/links"))["links"], key=lambda each: each["name"], reverse=True
    )
    async with site.ada.session.delete(f"/v1/clusters/{site.ada.cluster}/jobs/1/links/{other['id']}") as answer:
        assert answer.status == 204, await answer.text()
    await site.record("links list", *FORMS)
    await site.record("links revoke", f"{review['id']} --json", review["id"])


async def test_money(site: Site) -> None:
    long_ago = "--from=2020-01-01 --to=2020-01-01"
    await site.record("costs", long_ago, f"{long_ago} --json")
    await site.record("quota", "", "--json")
    await site.record("budgets", "", "--json")


async def test_changing(site: Site) -> None:
    await site.record("hold", "3", "3 --json", "3 --quiet", "1 3 99")
    await site.record("release", "99", "99 --json")
    fields = ("time_limit=7", "name=better --json", "colour=red", "nice=5 --quiet")
    await site.record("update", *(f"3 --set {each}" for each in fields))
    await site.record("signal", "2 --signal=CONT", "2 3 -s CONT --json", "2 -s CONT --quiet")
    await site.record("requeue", "3", "3 --json")
    await site.record("cancel", "4_7 '4_[1-3,5]'", "4_8 99 4_9 --json", "4 --quiet", "4-7")


async def test_submitting(site: Site) -> None:
    script, rules = str(site.folder / "hello.sh"), (NEW_JOB, BARE_JOB, WORKER, ALTERNATIVES)
    await site.record(
        "submit",
        *(f"-H {script} x", f"-H --json {script}", f"-H --quiet {script}", f"--dry-run {script}"),
        *(f"--estimate --mem=6G {script}", f"--estimate --mem=6G --json {script}"),
        *(f"--time=never {script}", "absent.sh"),
        rules=rules,
    )
    await site.record("run", "--time=5 sh -c 'echo hi; exit 3'", "--time=5 --json true", rules=rules)
    shell = "shell --set commands='echo hi'"
    await site.record("launch", shell, f"{shell} --json", f"{shell} --quiet", "absent", rules=rules)


async def test_workflows(site: Site) -> None:
    file, rules = str(site.folder / "nightly.json"), (NEW_JOB, BARE_JOB, PASSING, STEP_JOB)
    calls = (file, f"{file} --json --name=other", f"{file} --quiet", "absent.json")
    run_id = (await site.record("workflows start", *calls, rules=(*rules, UNDER_WAY)))[2].out.strip()
    forms = [f"{run_id} {form}" for form in FORMS]
    await site.record("workflows follow", *forms, rules=rules)
    await site.record("workflows show", *forms, "0" * 32, rules=rules)
    await site.record("workflows list", *(f"--limit=1 {form}" for form in FORMS), rules=rules)
    await site.record("workflows resume", f"{run_id} --quiet", "0" * 32, "0 --json", rules=rules)
    await site.record("workflows cancel", *forms[::2], "0 --json", rules=rules)


async def test_schedules(site: Site) -> None:
    wanted = "shell --name=nightly --cron='30 2 * * *' --set commands='echo hi'"
    wrong = ("shell --name=x --cron='* * * * *' --set commands='echo hi'", "shell --name=x --missed=all")
    made = await site.record("schedules create", wanted, f"{wanted} --json", f"{wanted} --quiet", *wrong)
    schedule = made[2].out.strip()
    await site.record("schedules show", *(f"{schedule} {form}" for form in FORMS), "0" * 16)
    edits = (f"{schedule} --cron='0 4 * * *' --set commands='echo ho' --json", f"{schedule} --name=nightly")
    await site.record("schedules edit", *edits, schedule, f"{schedule} --cron='* * * * *'", f"{schedule} --missed=all")
    await site.record("schedules pause", schedule, f"{schedule} --json", f"{schedule} --quiet", "0" * 16)
    await site.record("schedules resume", schedule, f"{schedule} --json", f"{schedule} --quiet", "0" * 16)
    once = f"{schedule} --key=nightly-at-once"
    await site.record("schedules run", once, f"{once} --json", f"{once} --quiet", rules=(NEW_JOB, BARE_JOB))
    assert (await site("schedules", "pause", schedule)).code == 0
    for other in (await site("schedules", "list", "--quiet")).out.split():
        if other != schedule:
            assert (await site("schedules", "delete", other)).code == 0
    await site.record("schedules list", *FORMS, rules=(NEW_JOB, BARE_JOB))
    await site.record("schedules delete", f"{schedule} --json", schedule)


async def test_notifications(site: Site) -> None:
    await site.record("notifications set", "jobs-failed runs-ended", "jobs-failed --json", "jobs-fail", "")
    await site.record("notifications show", "", "--json")


async def test_bus_credentials(lab: Stack, site: Site) -> None:
    keys = [f"U{'A' * 54}{letter}" for letter in "ABC"]
    async with signing(lab.bus):
        made = await site.record(
            "bus-credentials create",
            *(f"{key} --name=CI {form}" for key, form in zip(keys, FORMS, strict=True)),
            f"{keys[0]} --name=CI",
            f"{keys[0]} --name=CI --cluster=absent",
            "nokey --name=CI",
            rules=BUS_CREDENTIAL,
        )
        credential = json.loads(made[1].out)["id"]
        for other in (await site("bus-credentials", "list", "--quiet")).out.split():
            if other != credential:
                assert (await site("bus-credentials", "revoke", other)).code == 0
        await site.record("bus-credentials list", *FORMS, rules=BUS_CREDENTIAL)
        renewals = (*(f"{credential} {form}" for form in FORMS), f"bc_{'0' * 16}")
        await site.record("bus-credentials renew", *renewals, rules=BUS_CREDENTIAL)
        await site.record("bus-credentials revoke", f"{credential} --json", credential, rules=BUS_CREDENTIAL)


async def test_webhooks(site: Site) -> None:
    async with receiver() as receiving:
        address = receiving.address
        own = Site(site.ada, site.folder, site.variables, {**site.names, address: "<receiver>"})
        wanted = f"{address}/take --name=CI --kind=quota.deleted --cluster={site.ada.cluster}"
        wrong = (
            f"{address}/refuse --name=CI",
            "https://ci.example/#x --name=CI",
            f"{address}/take --name=CI --kind=x.y",
        )
        forms = (*(f"{wanted} {form}" for form in FORMS), *wrong)
        made = await own.record("webhooks create", *forms, rules=WEBHOOK)
        webhook = made[2].out.strip()
        for other in (await site("webhooks", "list", "--quiet")).out.split():
            if other != webhook:
                assert (await site("webhooks", "delete", other)).code == 0
        await own.record("webhooks list", *FORMS, rules=WEBHOOK)
        absent = f"wh_{'0' * 16}"
        await own.record("webhooks test", webhook, f"{webhook} --json", absent, rules=WEBHOOK)
        await own.record("webhooks deliveries", webhook, f"{webhook} --json", f"{webhook} --failed -q", rules=WEBHOOK)
        await own.record(
            "webhooks rotate", webhook, f"{webhook} --json", f"{webhook} --overlap-hours=0 --json", rules=WEBHOOK
        )
        replays = (
            f"{webhook} --hours=1",
            f"{webhook} --hours=1 --json",
            webhook,
            f"{webhook} --after=2020-01-01T00:00:00Z",
        )
        await own.record("webhooks replay", *replays, rules=WEBHOOK)
        await own.record("webhooks delete", f"{webhook} --json", webhook, rules=WEBHOOK)


async def test_sessions(site: Site) -> None:
    calls = ("small-page", "small-page --json", "small-page --quiet", "shell")
    started = await site.record("sessions start", *calls, rules=(NEW_JOB, BARE_JOB))
    job_id = started[2].out.strip()
    for other in (await site("sessions", "list", "--quiet")).out.split():
        if other != job_id:
            assert (await site("sessions", "stop", other)).code == 0

    async def alone() -> bool:
        return (await site("sessions", "list", "--quiet")).out.split() == [job_id]

    await until(alone, seconds=90, what="the other sessions to end")
    await until_ready(site.ada, job_id)
    ids = (rule("the session", rf"\b{job_id}\b", digits=True),)
    await site.record("sessions list", *FORMS, rules=ids)
    opening = (f"{job_id} --no-browser", f"{job_id} --json", f"{job_id} --quiet", "99")
    await site.record("sessions open", *opening, rules=ids)
    await site.record("sessions stop", f"{job_id} --json", "99", rules=ids)


async def test_people(site: Site) -> None:
    await site.record("members list", *FORMS)
    await site.record("members show", "grace", "GRACE@acme.example --json", "grace --quiet", "nobody")
    changes = ("grace --role=viewer", "grace --role=member --enable --json", "grace", "grace --role=king")
    await site.record("members update", *changes)
    made = ("ci -d builds", "cd --scope=jobs:read --json", "ce --quiet", "ci")
    await site.record("service-accounts create", *made)
    await site.record("service-accounts show", "ci", "ci --json", "absent")
    await site.record("service-accounts disable", "ci", "ci --json")
    await site.record("service-accounts enable", "ci --quiet", "ci --json")
    await site.record("service-accounts list", *FORMS)
    async with site.ada.session.post("/v1/service-accounts/ci/keys", json={"name": "runner"}) as answer:
        assert answer.status == 201, await answer.text()
        key = (await answer.json())["id"]
    await site.record("service-accounts keys", "ci", "ci --json", "ci --quiet")
    await site.record("service-accounts revoke-key", f"ci {key} --json", f"ci {key}")
    await site.record("service-accounts delete", "ce", "cd --json", "absent")
    token = await _used_token(site)
    await site.record("members tokens", "grace", *(f"ada {form}" for form in FORMS))
    await site.record("members revoke-token", f"ada {token.id} --json", f"ada {token.id}")


async def test_files(site: Site) -> None:
    folder = site.folder / "results"
    folder.mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text(f"{name}\n")
    file = str(folder / "a.txt")
    copies = (f"{file} bucket:data/", f"{file} bucket:data/x --json", "bucket:data/x - --quiet", "bucket:data/none y")
    await site.record("files cp", *copies, f"{file} y")
    await site.record("files sync", *(f"{folder} bucket:data/run {form}" for form in ("--dry-run", *FORMS)), "x y")
    await site.record("files ls", *(f"data {form}" for form in FORMS), "--long --recursive bucket:data", "data/none")
    await site.record("files rm", "data/x --json", "bucket:data/a.txt", "-r data --quiet", "data/x")


async def test_the_spool(site: Site) -> None:
    """Four submits of a moment without a network: two are deleted, one is sent, and one refused."""
    spool = Spool(site.folder / "spool")
    spool.make()
    credentials = FixedToken(site.variables["CLUSTERRA_TOKEN"])
    target = Target(site.variables["CLUSTERRA_URL"], site.ada.cluster, credentials)
    for option in ("time_limit", "time_limit", "time_limit", "no_such_option"):
        job = {option: 5, "hold": True, "environment": ["PATH=/usr/bin:/bin"]}
        keep(spool, target, {"script": SCRIPT, "job": job})
    rules = (NEW_JOB, BARE_JOB, SENT_JOB)
    await site.record("spool delete", "s1", "s2 --json", "s9", rules=rules)
    await site.record("spool send", "--json", "s4", "--quiet", rules=rules)
    await site.record("spool list", *FORMS, rules=rules)


async def test_advise(site: Site) -> None:
    file = site.folder / "records.txt"
    file.write_text(RECORDS)
    forms = (f"{file} --policy=first-fit --time-zone=UTC {form}" for form in FORMS)
    await site.record("advise", *forms, f"{site.folder}/none.txt", f"{file} --policy=none")


async def test_top(site: Site) -> None:
    """Its screen and its stream have tests of their own; here it ends at once."""
    signed_out = Site(site.ada, site.folder, {**site.variables, "CLUSTERRA_TOKEN": "clusterra_none"}, site.names)
    await signed_out.record("top", "", "--json")


async def test_tokens(site: Site) -> None:
    token = await _used_token(site)
    await site.record("tokens list", *FORMS)
    await site.record("tokens revoke", f"{token.id} --json", token.id)
    command = CommandLine(site.folder, dict(site.variables))
    snapshot = Snapshot("tokens create", site.names)
    for form in ("", "--json"):
        arguments = shlex.split(f"tokens create --device --name=ci --days=3 --scope=jobs:read {form}")
        process = await command.start(*arguments)
        assert process.stderr is not None
        async with asyncio.timeout(120):
            asked = (await process.stderr.readline()).decode()
            status, text = await decide(site.ada.session, asked.split()[-1], "approve")
            assert status == 200, text
            out, err = await process.communicate()
        snapshot.add(arguments, Ran(process.returncode or 0, out.decode(), asked + err.decode()))
    snapshot.check()


async def test_contexts_and_signing_in(lab: Stack, site: Site) -> None:
    kept = ("CLUSTERRA_CONFIG", "PYTHON_KEYRING_BACKEND")
    alone = {name: value if name in kept else "" for name, value in site.variables.items()}
    own = Site(site.ada, site.folder, alone, site.names)
    token = site.variables["CLUSTERRA_TOKEN"]
    await own.record("login", f"{lab.gateway_url} --token-stdin", stdin=f"{token}\n")
    await own.record("context set", "second --url=https://clusterra.example --cluster=main", "third")
    await own.record("context use", "second", "absent")
    await own.record("context list", *FORMS)
    await own.record("context remove", "second", "second")
    await own.record("logout", *[f"--url={lab.gateway_url}"] * 2)


def test_each_command_has_a_snapshot_with_its_json() -> None:
    found = {leaf.name: leaf for leaf in leaves()}
    recorded = {file.stem: file.read_text() for file in FOLDER.glob("*.txt")}

    assert recorded.keys() == {name.replace(" ", "-") for name in found}
    for name, leaf in found.items():
        if "--json" in leaf.options:
            assert re.search(r"(?m)^\$ .*--json", recorded[name.replace(" ", "-")]), name


@pytest.mark.parametrize("leaf", leaves(), ids=lambda leaf: leaf.name.replace(" ", "-"))
def test_the_help_of_each_command_names_its_options(leaf: Leaf) -> None:
    ran = called([*leaf.name.split(), "--help"], {"COLUMNS": "200", "TERMINAL_WIDTH": "200"})

    assert ran.code == 0, ran
    assert not [name for name in leaf.options if name not in ran.out]
