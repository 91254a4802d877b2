"""Honest bytes with something done to them that hurts decoders of lengths, counts and numbers."""

import random
import struct

INTERESTING = (
    -(1 << 63),
    -(1 << 31),
    -32_769,
    -32_768,
    -2,
    -1,
    0,
    1,
    2,
    127,
    255,
    32_767,
    65_536,
    (1 << 31) - 1,
    1 << 40,
)
WIDTHS = ((1, "b", "B"), (2, "h", "H"), (4, "i", "I"), (8, "q", "Q"))
TEXTS = (b"\xed\xa0\x80", b"\xc0\x80", b"\xff", b"\\ud800", b"NaN", b"1e999", b"[[[[", b'{"v":1', b"\0" * 9)
SIZE_MAX = 4_096


def mutate(draw: random.Random, data: bytes, others: tuple[bytes, ...]) -> bytes:
    """One to four changes. `others` are honest bytes of the same kind, for splicing."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        _change(draw, changed, others)
    return bytes(changed[:SIZE_MAX])


def _change(draw: random.Random, data: bytearray, others: tuple[bytes, ...]) -> None:
    at = draw.randint(0, len(data))
    match draw.randrange(8):
        case 0:
            del data[at:]
        case 1:
            del data[at : at + draw.randint(1, 16)]
        case 2:
            data[at:at] = bytes(draw.getrandbits(8) for _ in range(draw.randint(1, 8)))
        case 3 if data:
            data[at - 1] ^= 1 << draw.randrange(8)
        case 4 | 5:
            number = _number(draw)
            data[at : at + len(number)] = number
        case 6:
            other = draw.choice(others)
            cut = draw.randint(0, len(other))
            data[at:] = other[cut:]
        case _:
            piece = draw.choice((bytes(data[at : at + draw.randint(1, 64)]), draw.choice(TEXTS)))
            data[at:at] = piece * draw.randint(1, 4)


def _number(draw: random.Random) -> bytes:
    """A number at the edge of what its field holds, or the length of something near."""
    size, signed, unsigned = draw.choice(WIDTHS)
    value = draw.choice(INTERESTING) if draw.random() < 0.7 else draw.randint(-3, 300)
    return struct.pack(">" + (unsigned if value >= 0 else signed), _clamped(value, size))


def _clamped(value: int, size: int) -> int:
    low, high = -(1 << 8 * size - 1), (1 << 8 * size) - 1
    return max(low, min(high, value))
