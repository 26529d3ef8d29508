"""Reads the docstrings below the fields of pydantic models, for generated pages."""

import ast
import inspect
import textwrap

from pydantic import BaseModel


def meanings(model: type[BaseModel], root: type[BaseModel]) -> dict[str, str]:
    """The docstrings below the fields of a model and of its bases up to `root`, each in one line, by field."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not issubclass(base, root):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for field, below in zip(definition.body, definition.body[1:], strict=False):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = inspect.cleandoc(text).replace("\n", " ")
    return found
