"""Migrations: explicit, repeatable changes of stored records to their present form."""
