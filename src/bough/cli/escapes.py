"""Text that a tenant or a caller wrote, safe to print on a terminal: control characters become visible.

These are the control codes of ASCII and ISO 6429 (C0, DEL, C1), which can move the cursor, change the title or
answer as if somebody had typed; and in Unicode what ends a line or changes the direction of writing.
"""

import re

_CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE = re.compile(f"[{_CONTROL}]")
_UNSAFE_OR_LINE = re.compile(f"[{_CONTROL}\n\t]")
_UNSAFE_OR_COLOUR = re.compile(rf"(\x1b\[(?:0|31|32|33)m)|[{_CONTROL}]")


def escape(text: str) -> str:
    """Tabs and ends of lines stay."""
    return _UNSAFE.sub(_visible, text)


def escape_line(text: str) -> str:
    """All in one line."""
    return _UNSAFE_OR_LINE.sub(_visible, text)


def escape_keeping_colours(text: str) -> str:
    """For output that we coloured ourselves: the colours that `output` uses stay too."""
    return _UNSAFE_OR_COLOUR.sub(lambda found: found[1] or _visible(found), text)


def escape_json(text: str) -> str:
    """JSON that means the same; in it no control character can stand but in a text."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _visible(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]
