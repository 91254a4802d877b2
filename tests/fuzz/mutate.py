"""Honest bytes with something done to them that hurts decoders of lengths, counts and numbers."""

import random
import struct
from collections.abc import Iterable, Sequence

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


def _packed(values: Iterable[int]) -> tuple[bytes, ...]:
    """Each in every width, at the edge of it where it does not fit."""
    return tuple(
        struct.pack(">" + (unsigned if value >= 0 else signed), _clamped(value, size))
        for size, signed, unsigned in WIDTHS
        for value in values
    )


def _clamped(value: int, size: int) -> int:
    return max(-(1 << 8 * size - 1), min(value, (1 << 8 * size) - 1))


EDGES = _packed(INTERESTING)
NEAR = _packed(range(-3, 301))  # lengths of something near


def mutate(draw: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """One to four changes. `others` are honest bytes of the same kind, for splicing. It must be cheap: it is called as
    often as the decoders are, so numbers are drawn as parts of one."""
    changed = bytearray(data)
    for _ in range(1 + int(4 * draw.random())):
        _change(draw, changed, others)
    return bytes(changed[:SIZE_MAX])


def _change(draw: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    part = draw.random
    at = int(part() * (len(data) + 1))
    match int(part() * 8):
        case 0:
            del data[at:]
        case 1:
            del data[at : at + 1 + int(part() * 16)]
        case 2:
            data[at:at] = draw.getrandbits(64).to_bytes(8, "big")[: 1 + int(part() * 8)]
        case 3 if data:
            data[at - 1] ^= 1 << int(part() * 8)
        case 4 | 5:
            kinds = EDGES if part() < 0.7 else NEAR
            number = kinds[int(part() * len(kinds))]
            data[at : at + len(number)] = number
        case 6:
            other = others[int(part() * len(others))]
            data[at:] = other[int(part() * (len(other) + 1)) :]
        case _:
            near = bytes(data[at : at + 1 + int(part() * 64)])
            piece = near if part() < 0.5 else TEXTS[int(part() * len(TEXTS))]
            data[at:at] = piece * (1 + int(part() * 4))
