"""Names in paths: those of roles and databases may hold anything, slashes and line ends too."""

from starlette.convertors import StringConvertor, register_url_convertor


class _Whole(StringConvertor):
    """All the rest of a path. Starlette's own `path` ends at a line end, and so would take one name for another."""

    regex = r"[\s\S]*"

    def to_string(self, value: str) -> str:
        return value


def rest_of_path(parameter: str) -> str:
    """The part of a route that takes such a name."""
    return f"{{{parameter}:whole}}"


register_url_convertor("whole", _Whole())
