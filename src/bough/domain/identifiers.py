"""Validation of names that become Postgres identifiers."""

from collections.abc import Collection

from bough.errors import Invalid

MAX_BYTES = 63  # Postgres truncates longer identifiers silently


def check_identifier(name: str, noun: str, reserved: Collection[str], prefixes: tuple[str, ...]) -> str:
    """Return the name if Postgres accepts it and it is not reserved."""
    if not name:
        raise Invalid(f"A {noun} needs a name of at least one character.")
    if len(name.encode()) > MAX_BYTES:
        raise Invalid(f"The {noun} name {name[:20]!r}… is longer than {MAX_BYTES} bytes.")
    if not name.isprintable():
        raise Invalid(f"The {noun} name {name!r} contains a control character.")
    if name.lower() in reserved or name.lower().startswith(prefixes):
        raise Invalid(f"The {noun} name {name!r} is reserved; choose another.")
    return name
