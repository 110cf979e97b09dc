"""The batch that drivers send most often: an unnamed statement, parsed, bound, executed and synced in one write.

It is taken in one go, because each of its messages by itself costs nearly as much as all of them.
"""

import struct

_BODY = 5
_LEAST = 7  # bytes of a Parse or Bind without names, up to where its text or its formats begin
_BIND = b"B"[0]
_DESCRIBE, _EXECUTE, _SYNC = b"D\0\0\0\x06P\0", b"E\0\0\0\x09\0\0\0\0\0", b"S\0\0\0\x04"
_ENDINGS = frozenset((_DESCRIBE + _EXECUTE + _SYNC, _EXECUTE + _SYNC))
PARSE_AND_BIND_COMPLETE = b"1\0\0\0\x042\0\0\0\x04"  # it is parsed and bound

_length = struct.Struct(">I").unpack_from


def parse_simple_batch(data: bytes | bytearray, end: int) -> bytes | None:
    """Its text and types, as the Parse that `data` begins with carries them; None: there is something else too."""
    if end < _BODY:
        return None
    bind = 1 + _length(data, 1)[0]
    if not _LEAST <= bind <= end - _LEAST or data[_BODY] != 0 or data[bind] != _BIND:
        return None
    ending = bind + 1 + _length(data, bind + 1)[0]
    if ending < bind + _LEAST or data[bind + _BODY] != 0 or data[bind + _BODY + 1] != 0:
        return None
    return bytes(data[_BODY + 1 : bind]) if bytes(data[ending:end]) in _ENDINGS else None
