"""The catalog of extensions: which packages they need, whether tenants may create them, and what they need to work.

Each extension that does not come with Postgres has a file of its own.
"""
