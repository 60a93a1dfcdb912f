"""Prints a tile map from a PNG file: decode-png.py <file> <tiles of queries> <tiles of keys>. A letter for the colour
in the middle of each tile."""
import struct
import sys
import zlib

NAMES = {(0xE8, 0xE8, 0xE8): ".", (0xF2, 0x8E, 0x2B): "p", (0x4E, 0x79, 0xA7): "F"}


def read(path):
    """Width, height, and rows of colours."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + size
    width, height, *kind = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert kind == [8, 3, 0, 0, 0]
    colours = [tuple(chunks[b"PLTE"][i:i + 3]) for i in range(0, len(chunks[b"PLTE"]), 3)]
    rows = zlib.decompress(chunks[b"IDAT"])
    assert len(rows) == (width + 1) * height and not any(rows[::width + 1])
    return width, height, [[colours[x] for x in rows[y * (width + 1) + 1:(y + 1) * (width + 1)]] for y in range(height)]


def main():
    path, rows, columns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    width, height, pixels = read(path)
    print(f"{width} x {height}")
    for row in range(rows):
        y = (2 * row + 1) * height // (2 * rows)
        print("".join(NAMES[pixels[y][(2 * column + 1) * width // (2 * columns)]] for column in range(columns)))


if __name__ == "__main__":
    main()
