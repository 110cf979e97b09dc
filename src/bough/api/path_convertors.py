"""Names of roles and databases in paths, which may contain any character, including slashes and newlines."""

from starlette.convertors import StringConvertor, register_url_convertor


class _RestOfPath(StringConvertor):
    """Matches the rest of a path. Starlette's own `path` ends at a newline and would match another name."""

    regex = r"[\s\S]*"

    def to_string(self, value: str) -> str:
        return value


def rest_of_path(parameter: str) -> str:
    """Return the part of a route template that matches such a name."""
    return f"{{{parameter}:whole}}"


register_url_convertor("whole", _RestOfPath())
