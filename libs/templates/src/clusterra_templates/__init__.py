"""Templates of jobs: definitions, their JSON Schema, and the scripts that are rendered from them. Pure.

The public interface:

- `loading.load(text)` reads a definition from YAML; `definitions.definition_schema()` is its JSON Schema.
- `rendering.render(definition, request)` returns the script of a job.
- `catalogue.load_folder(path)` reads all definitions of a folder.

All raise the errors of `problems`, whose text says what to do.
"""
