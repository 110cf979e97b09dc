"""Change the output plugin in the file of a replication slot, with the checksum that Postgres requires."""

import struct
from pathlib import Path

_CHECKSUM_OFFSET, _CHECKED_FROM, _PLUGIN_OFFSET, _NAME_BYTES = 4, 8, 129, 64
_CRC_32C = 0x82F63B78  # the reversed polynomial


def plant_slot(folder: Path, plugin: str) -> None:
    """The server of the slot must be stopped."""
    state = bytearray((folder / "state").read_bytes())
    assert state[_PLUGIN_OFFSET:].startswith(b"test_decoding\0"), "the layout of the file is another one"
    state[_PLUGIN_OFFSET : _PLUGIN_OFFSET + _NAME_BYTES] = plugin.encode().ljust(_NAME_BYTES, b"\0")[:_NAME_BYTES]
    struct.pack_into("<I", state, _CHECKSUM_OFFSET, _calculate_crc(bytes(state[_CHECKED_FROM:])))
    (folder / "state").write_bytes(state)


def _calculate_crc(content: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_CRC_32C if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
