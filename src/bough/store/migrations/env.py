"""Alembic's entry: it runs inside the connection that `schema.upgrade` hands over."""

from alembic import context

from bough.store.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=connection.dialect.name == "sqlite")
with context.begin_transaction():
    context.run_migrations()
