"""Names that become Postgres identifiers."""

from collections.abc import Collection

from bough.errors import Invalid

MAX_BYTES = 63  # bytes; Postgres would cut a longer one without a word


def check_identifier(name: str, noun: str, reserved: Collection[str], prefixes: tuple[str, ...]) -> str:
    """The name itself, when Postgres can hold it and it is not ours."""
    if not name:
        raise Invalid(f"A {noun} needs a name of at least one character.")
    if len(name.encode()) > MAX_BYTES:
        raise Invalid(f"The {noun} name {name[:20]!r}… is longer than {MAX_BYTES} bytes.")
    if not name.isprintable():
        raise Invalid(f"The {noun} name {name!r} holds a control character.")
    if name.lower() in reserved or name.lower().startswith(prefixes):
        raise Invalid(f"The {noun} name {name!r} is reserved; choose another.")
    return name
