"""Renders templates. All values are escaped, and an undefined variable is an error."""

from datetime import datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bough import byte_sizes
from bough.pages import return_paths

_templates = Environment(
    loader=PackageLoader("bough.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(template: str, **values: Any) -> str:
    return _templates.get_template(template).render(**values)


def _timestamp(at: datetime) -> Markup:
    return Markup('<time datetime="{}">{}</time>').format(f"{at:%Y-%m-%dT%H:%M:%SZ}", f"{at:%-d %B %Y, %H:%M} UTC")


_templates.filters["timestamp"] = _timestamp
_templates.filters["size"] = byte_sizes.format_in_largest_unit
_templates.filters["return_to"] = return_paths.add_return_path
