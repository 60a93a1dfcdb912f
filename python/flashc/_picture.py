"""The tiles of one query head as a PNG file."""
from __future__ import annotations

import functools
import operator
import struct
import zlib
from typing import List, Sequence

#: The longest side of a picture in pixels.
_MAX_SIDE = 2048
#: Colours of skipped, partial and full tiles, and of lines between tiles.
_COLOURS = bytes.fromhex("e8e8e8 f28e2b 4e79a7 ffffff")
_LINE = 3
_LEAST_SCALE_WITH_LINES = 8
#: The class of a block, indexed by (OR of its tiles' classes) + 4 * (AND of its tiles' classes).
_OF_BITS = bytes(2 if bits == 2 + 4 * 2 else int(bits != 0) for bits in range(256))


def block_side(rows: int, columns: int) -> int:
    """Returns the side, in tiles, of the block that a pixel stands for."""
    return -(-max(rows, columns) // _MAX_SIDE)


def _block_row(lines: Sequence[bytes], side: int) -> bytes:
    """Returns the classes of the blocks in `side` lines of tiles. A block is skipped (0) or full (2) if all its tiles
    are; otherwise it is partial (1)."""
    padded = [line + line[-1:] * (-len(line) % side) for line in lines]
    parts = [int.from_bytes(line[k::side], "little") for line in padded for k in range(side)]
    some, every = functools.reduce(operator.or_, parts), functools.reduce(operator.and_, parts)
    size = len(padded[0]) // side
    return (some | every << 2).to_bytes(size, "little").translate(_OF_BITS)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def draw(tiles: bytes, rows: int, columns: int) -> bytes:
    """Returns a PNG file. `tiles` has a byte for each tile, row by row: 0 skipped, 1 partial, 2 full."""
    lines: List[bytes] = [tiles[row * columns:(row + 1) * columns] for row in range(rows)]
    side = block_side(rows, columns)
    if side > 1:
        lines = [_block_row(lines[row:row + side], side) for row in range(0, rows, side)]
    # Small pictures are scaled up to about 512 pixels.
    scale = min(max(512 // max(rows, columns), 1), 32)
    margin = int(scale >= _LEAST_SCALE_WITH_LINES)
    width = len(lines[0]) * scale + margin
    cell = [bytes([_LINE] * margin + [tile] * (scale - margin)) for tile in range(3)]
    pixels: List[bytes] = []
    for line in lines:
        cells = b"".join(map(cell.__getitem__, line)) + bytes([_LINE] * margin)
        pixels += [bytes([_LINE] * width)] * margin + [cells] * (scale - margin)
    pixels += [bytes([_LINE] * width)] * margin
    # Eight bits per pixel, colours from a palette, rows without a filter, not interlaced (PNG, 11.2.2).
    header = struct.pack(">IIBBBBB", width, len(pixels), 8, 3, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"PLTE", _COLOURS) + \
        _chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in pixels))) + _chunk(b"IEND", b"")
