"""Lays a preset over the Nextflow template that it is for: what it gives wins over the template's defaults.

What a person gives wins over both.
"""

from dataclasses import replace

from clusterra_templates.definitions import AnyPreset, Runnable
from clusterra_templates.parts import Parameter
from clusterra_templates.rendering import Wanted


def with_preset(parent: Runnable, preset: AnyPreset, wanted: Wanted) -> tuple[Wanted, Runnable]:
    """The values of a preset under those of the person, and the template with the preset's defaults."""
    keys = {each.key for each in parent.inputs}
    params = {key: value for key, value in preset.static_values.items() if key not in keys}
    inputs = {key: value for key, value in preset.static_values.items() if key in keys}
    params |= dict(wanted.params)
    of_pipeline = [each.key for each in parent.parameters if each.widget == "nextflow_schema"]
    if preset.schema_values and of_pipeline:
        given = params.get(of_pipeline[0]) or {}
        if isinstance(given, dict):
            params[of_pipeline[0]] = preset.schema_values | given
    pinned = {"pipeline_repo": preset.pipeline_repo}
    if preset.revision is not None:
        pinned["revision"] = preset.revision
    values = replace(wanted, params=params, inputs=inputs | dict(wanted.inputs), runtime=pinned)
    return values, parent.model_copy(update={"parameters": _with_defaults(parent, preset)})


def _with_defaults(parent: Runnable, preset: AnyPreset) -> tuple[Parameter, ...]:
    """The template's own parameters, with the defaults that the preset has for them."""
    defaults = {each.key: each.default for each in preset.parameters if each.default not in (None, "")}
    return tuple(
        each.model_copy(update={"default": defaults[each.key]}) if each.key in defaults else each
        for each in parent.parameters
    )
