"""Makes control characters visible in text that a tenant or a caller wrote, so that it is safe to print on a terminal.

These are the control codes of ASCII and ISO 6429 (C0, DEL, C1), which can move the cursor, change the window title or
inject input, and the Unicode characters that end a line or change the writing direction.
"""

import re

_CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE = re.compile(f"[{_CONTROL}]")
_UNSAFE_OR_LINE = re.compile(f"[{_CONTROL}\n\t]")
_UNSAFE_OR_COLOUR = re.compile(rf"(\x1b\[(?:0|31|32|33)m)|[{_CONTROL}]")


def escape(text: str) -> str:
    """Keep tabs and newlines."""
    return _UNSAFE.sub(_make_visible, text)


def escape_line(text: str) -> str:
    """Escape tabs and newlines too, so that the text stays on one line."""
    return _UNSAFE_OR_LINE.sub(_make_visible, text)


def escape_keeping_colours(text: str) -> str:
    """Keep the colours that `output` adds."""
    return _UNSAFE_OR_COLOUR.sub(lambda match: match[1] or _make_visible(match), text)


def escape_json(text: str) -> str:
    """Return equivalent JSON; in valid JSON, control characters occur only inside strings."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _make_visible(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]
