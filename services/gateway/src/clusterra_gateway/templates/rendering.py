"""Renders what somebody launches, in threads of its own: a job, a preset, or the steps of a workflow.

What a template computes is its author's, and takes up to two seconds for each job of a workflow. In the threads that
everything else shares, a few such requests would keep all of it waiting, even the look-up of a name in DNS.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from clusterra_contracts.identity import ClusterRef, now
from clusterra_templates.definitions import AnyPreset, AnyWorkflow, Runnable
from clusterra_templates.parts import WorkflowStep
from clusterra_templates.problems import RenderRefused, TemplateInvalid
from clusterra_templates.rendering import JobContext, Rendered, Wanted, render, render_text

from clusterra_gateway.http.requests.errors import Conflict, InvalidRequest, NotFound, TooManyRequests
from clusterra_gateway.templates.library import Found, Library
from clusterra_gateway.templates.presets import with_preset
from clusterra_gateway.workflows.models import TemplateStep

PREVIEW = "preview"
"""The run id in a script that is only looked at."""
THREADS = 2
MAX_WAITING = 100
"""The most pieces of work of one person that wait for a thread."""
_THREADS = ThreadPoolExecutor(THREADS, thread_name_prefix="templates")


class Asker(NamedTuple):
    """Whose work is done."""

    tenant: str
    user: str


class _RoundRobin:
    """Gives the threads to tenants in turn, and to each one's people, so that the waiting work of one person
    delays nobody else."""

    def __init__(self) -> None:
        self._free = THREADS
        self._waiting: dict[str, dict[str, deque[asyncio.Future[None]]]] = {}
        """By tenant and user; the tenant whose turn is next comes first, and so does its user."""

    async def take(self, asker: Asker) -> None:
        """Return when a thread is there for somebody, who must `give` it back. Raises TooManyRequests."""
        if self._free:
            self._free -= 1
            return
        queue = self._waiting.setdefault(asker.tenant, {}).setdefault(asker.user, deque())
        if len(queue) >= MAX_WAITING:
            raise TooManyRequests("too many of your templates wait to be rendered", hint="try again soon")
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.give()
            raise

    def give(self) -> None:
        """Give a thread to the next one who waits."""
        while self._waiting:
            tenant = next(iter(self._waiting))
            users = self._waiting.pop(tenant)
            user = next(iter(users))
            queue = users.pop(user)
            turn = queue.popleft()
            if queue:
                users[user] = queue
            if users:
                self._waiting[tenant] = users
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


_ROUND_ROBINS = WeakKeyDictionary[asyncio.AbstractEventLoop, _RoundRobin]()


async def in_thread[**P, R](asker: Asker, work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Does the work in one of these threads, when it is the turn of who asks for it.

    Returns what it returns, and raises what it raises. Raises TooManyRequests.
    """
    loop = asyncio.get_running_loop()
    threads = _ROUND_ROBINS.setdefault(loop, _RoundRobin())
    await threads.take(asker)
    done = _THREADS.submit(partial(work, *arguments, **named))
    # When it is over, not when its caller has left: a thread cannot be stopped.
    done.add_done_callback(lambda _: loop.is_closed() or loop.call_soon_threadsafe(threads.give))
    return await asyncio.wrap_future(done)


@dataclass(frozen=True)
class RenderedStep:
    """A rendered job; `step_id` and `depends_on` are those of a workflow's step."""

    template_id: str
    rendered: Rendered
    step_id: str | None = None
    depends_on: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Prepared:
    """What a request wants submitted."""

    found: Found
    steps: tuple[RenderedStep, ...]


class Renderings:
    """Finds and renders templates. Raises InvalidRequest for a wrong value, NotFound and Conflict for templates."""

    def __init__(self, library: Library) -> None:
        self._library = library

    async def preview(
        self, ref: ClusterRef, user: str, template_id: str, wanted: Wanted, version: int | None
    ) -> Prepared:
        """Render a template, or a version of one, published or not. Raises InvalidRequest, NotFound, Conflict."""
        found = await self._library.one(ref.tenant, template_id)
        if version is not None:
            definition = await self._library.version(ref.tenant, template_id, version)
            if definition is None or found.origin != "workspace":
                raise NotFound("there is no such version", hint=f"GET /v1/templates/{template_id}/versions lists them")
            found = Found(definition, "workspace", version, published=version == found.version and found.published)
        return await self._rendered(ref, user, found, wanted, PREVIEW)

    async def prepare(self, ref: ClusterRef, user: str, template_id: str, wanted: Wanted, run_id: str) -> Prepared:
        """Render a template to submit it. Raises InvalidRequest, NotFound, Conflict, StoreUnavailable."""
        return await self._rendered(ref, user, await self._ready(ref, template_id), wanted, run_id)

    async def step(self, ref: ClusterRef, user: str, wanted: TemplateStep, run_id: str) -> RenderedStep:
        """Render a template as a job of a workflow. Raises InvalidRequest, NotFound, Conflict, StoreUnavailable."""
        found = await self._ready(ref, wanted.template_id)
        if isinstance(found.definition, AnyWorkflow):
            raise InvalidRequest("a workflow is a run of its own", hint="name the templates of its steps")
        values = Wanted(wanted.params, wanted.inputs, wanted.sbatch_override)
        context = JobContext(user=user, cluster_id=ref.cluster, run_id=run_id).of_step(wanted.step_id)
        (step,) = await self.render(ref.tenant, found, values, context)
        return step

    async def _ready(self, ref: ClusterRef, template_id: str) -> Found:
        found = await self._library.one(ref.tenant, template_id)
        if not found.ready:
            raise Conflict(
                "this template cannot be submitted yet",
                hint="an admin of your workspace can review and publish it"
                if not found.published
                else "look at it only",
            )
        return found

    async def _rendered(self, ref: ClusterRef, user: str, found: Found, wanted: Wanted, run_id: str) -> Prepared:
        context = JobContext(user=user, cluster_id=ref.cluster, run_id=run_id)
        return Prepared(found, await self.render(ref.tenant, found, wanted, context))

    async def render(self, tenant: str, found: Found, wanted: Wanted, context: JobContext) -> tuple[RenderedStep, ...]:
        """The jobs of a template: one, or those of a workflow's steps."""
        definition = found.definition
        if not isinstance(definition, AnyWorkflow):
            return (await self._job(tenant, found, wanted, context),)
        by_step = _by_step(definition.steps, wanted)
        return tuple(
            [await self._step(tenant, definition, each, by_step[each.step_id], context) for each in definition.steps]
        )

    async def _step(
        self, tenant: str, workflow: AnyWorkflow, step: WorkflowStep, wanted: Wanted, context: JobContext
    ) -> RenderedStep:
        found = await self._library.one(tenant, step.template_id)
        if isinstance(found.definition, AnyWorkflow):
            raise Conflict(f"step {step.step_id} is a workflow", hint="a workflow's steps are jobs")
        context, asker = context.of_step(step.step_id), Asker(tenant, context.user)
        own = Wanted(
            params=await in_thread(asker, _filled, workflow, step.param_overrides, context) | dict(wanted.params),
            inputs=await in_thread(asker, _filled, workflow, step.input_overrides, context) | dict(wanted.inputs),
            sbatch_override=wanted.sbatch_override,
        )
        try:
            made = await self._job(tenant, found, own, context)
        except InvalidRequest as error:
            raise InvalidRequest(f"step {step.step_id}: {error.detail}", hint=error.hint) from None
        return replace(made, step_id=step.step_id, depends_on=step.depends_on)

    async def _job(self, tenant: str, found: Found, wanted: Wanted, context: JobContext) -> RenderedStep:
        definition = found.definition
        if isinstance(definition, AnyPreset):
            parent = await self._library.parent(tenant, definition)
            wanted, definition = with_preset(parent, definition, wanted)
        assert isinstance(definition, Runnable)  # noqa: S101 - there is no other kind
        try:
            asker = Asker(tenant, context.user)
            made = await in_thread(asker, render, definition, _sorted(definition, wanted), context, now=now())
        except (RenderRefused, TemplateInvalid) as error:
            raise InvalidRequest(
                str(error), hint=f"GET /v1/templates/{found.definition.id} shows the parameters and the script"
            ) from None
        return RenderedStep(definition.id, made)


def _sorted(definition: Runnable, wanted: Wanted) -> Wanted:
    """The values with inputs among the inputs: a flat form names them beside the parameters."""
    inputs = {each.key for each in definition.inputs} - {each.key for each in definition.parameters}
    return replace(
        wanted,
        params={key: value for key, value in wanted.params.items() if key not in inputs},
        inputs={key: value for key, value in wanted.params.items() if key in inputs} | dict(wanted.inputs),
    )


def _filled(workflow: AnyWorkflow, overrides: Mapping[str, Any], context: JobContext) -> dict[str, Any]:
    """The values that a workflow gives a step. Texts are templates with `ctx`, such as the path of an earlier step."""
    try:
        return {
            key: render_text(workflow, value, context) if isinstance(value, str) else value
            for key, value in overrides.items()
        }
    except RenderRefused as error:
        raise InvalidRequest(f"the workflow gives a step no value: {error}", hint="mend the workflow") from None


def _by_step(steps: tuple[WorkflowStep, ...], wanted: Wanted) -> dict[str, Wanted]:
    """The values for each step, from names such as `prep.size`. Raises InvalidRequest for a name without its step."""
    params: dict[str, dict[str, Any]] = {each.step_id: {} for each in steps}
    inputs: dict[str, dict[str, Any]] = {each.step_id: {} for each in steps}
    for values, by_step in ((wanted.params, params), (wanted.inputs, inputs)):
        for name, value in values.items():
            step, dot, key = name.partition(".")
            if not dot or step not in by_step:
                raise InvalidRequest(
                    f"{name[:100]}: a value of a workflow is named by its step and its key, such as `step.key`",
                    hint=f"the steps are {', '.join(by_step)}",
                )
            by_step[step][key] = value
    return {each: Wanted(params[each], inputs[each], wanted.sbatch_override) for each in params}
