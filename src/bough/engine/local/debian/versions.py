"""The order of Debian version numbers: `[epoch:]upstream[-revision]`.

In each part, text and numbers alternate. Letters sort before other characters, and `~` before everything, even the end.
"""

import re
from functools import total_ordering
from itertools import zip_longest

_PART = re.compile(r"(\D*)(\d*)")
_END = (0,)  # sorts after `~` and before every other character


@total_ordering
class DebianVersion:
    def __init__(self, text: str) -> None:
        self.text = text
        epoch, _, rest = text.rpartition(":")
        upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
        self._key = (int(epoch or 0), _sort_key(upstream), _sort_key(revision))

    @property
    def without_epoch(self) -> str:
        return self.text.rpartition(":")[2]

    @property
    def upstream(self) -> str:
        """The version without epoch, revision and Debian's additions such as `+ds`."""
        return re.split(r"[-+~]", self.text.rpartition(":")[2])[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DebianVersion) and not self < other and not other < self

    def __lt__(self, other: "DebianVersion") -> bool:
        if self._key[0] != other._key[0]:
            return self._key[0] < other._key[0]
        return (_compare(self._key[1], other._key[1]) or _compare(self._key[2], other._key[2])) < 0

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"DebianVersion({self.text!r})"


def _sort_key(part: str) -> tuple[tuple[tuple[int, ...], int], ...]:
    return tuple(
        ((*map(_character_order, text), *_END), int(number or 0))
        for text, number in _PART.findall(part)
        if text or number
    )


def _character_order(character: str) -> int:
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 256


def _compare(left: tuple[tuple[tuple[int, ...], int], ...], right: tuple[tuple[tuple[int, ...], int], ...]) -> int:
    """Return a negative number, zero or a positive number, as the left is smaller, equal or larger."""
    for one, other in zip_longest(left, right, fillvalue=(_END, 0)):
        if one != other:
            return -1 if one < other else 1
    return 0
