"""Compares a draft that is made of other templates with these: a preset, or the steps of a workflow.

A value for a parameter that the other template lacks would be refused at each submit, to a person who cannot mend it.
"""

from collections.abc import Iterable

from clusterra_templates.definitions import AnyPreset, AnyWorkflow, Definition, Runnable
from clusterra_templates.problems import nearest

from clusterra_gateway.http.requests.errors import Conflict, InvalidRequest, NotFound
from clusterra_gateway.templates.library import Library


async def check_draft(library: Library, tenant: str, definition: Definition) -> None:
    """Raises InvalidRequest for a value that another template does not take. One that is not there yet may be added."""
    if isinstance(definition, AnyPreset):
        given = {*definition.static_values, *(each.key for each in definition.parameters)}
        _check("the preset", given, await _runnable(library, tenant, definition))
    if isinstance(definition, AnyWorkflow):
        for step in definition.steps:
            try:
                found = (await library.one(tenant, step.template_id)).definition
            except NotFound:
                continue
            target = await _runnable(library, tenant, found)
            _check(f"step {step.step_id}", (*step.param_overrides, *step.input_overrides), target)


async def _runnable(library: Library, tenant: str, definition: Definition) -> Runnable | None:
    """The template that a definition's job is rendered from; None where there is none yet, or for a workflow."""
    if isinstance(definition, AnyPreset):
        try:
            return await library.parent(tenant, definition)
        except (NotFound, Conflict):
            return None
    return definition if isinstance(definition, Runnable) else None


def _check(where: str, given: Iterable[str], target: Runnable | None) -> None:
    if target is None:
        return
    known = {each.key for each in target.parameters} | {each.key for each in target.inputs}
    if unknown := sorted(set(given) - known):
        raise InvalidRequest(
            f"the definition is not valid: {where} gives {unknown[0][:100]}, which the template {target.id} does not "
            f"have: {nearest(unknown[0], known)}",
            hint=f"GET /v1/templates/{target.id} shows its parameters and inputs",
        )
