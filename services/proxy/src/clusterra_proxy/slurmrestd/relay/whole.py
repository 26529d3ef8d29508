"""An answer of slurmrestd that is passed on whole."""

from typing import Any

from pydantic import Field, model_validator

from clusterra_proxy.slurmrestd.answers import Answer


class WholeAnswer(Answer):
    """An answer with everything that slurmrestd wrote in it."""

    content: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _keep(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "content" in values:
            return values
        return {name: values[name] for name in ("errors", "warnings", "meta") if name in values} | {"content": values}
