"""What happens to bytes: flipped bits, cut ends, lost and moved blocks."""

import random


def damaged(rng: random.Random, content: bytes) -> tuple[bytes, str]:
    """The bytes after an accident, and what it was."""
    found, words = _damaged(rng, content)
    return (found, words) if found != content else (content[:-1], "the last byte is missing")


def _damaged(rng: random.Random, content: bytes) -> tuple[bytes, str]:
    size = len(content)
    kind = rng.randrange(12)
    if kind < 5:
        count = rng.choice((1, 1, 1, 2, 8))
        changed = bytearray(content)
        places = [rng.randrange(size) for _ in range(count)]
        for place in places:
            changed[place] ^= 1 << rng.randrange(8)
        return bytes(changed), f"bits flipped in bytes {places}"
    if kind < 7:
        end = rng.randrange(size)
        return content[:end], f"cut off after {end} of {size} bytes"
    if kind == 7:
        return content + bytes(rng.randrange(256) for _ in range(rng.randint(1, 40))), "bytes after the end"
    start = rng.randrange(size)
    length = rng.randint(1, max(1, min(size - start, 64)))
    if kind == 8:
        return content[:start] + bytes(length) + content[start + length :], f"{length} bytes zeroed from {start}"
    if kind == 9:
        return content[:start] + content[start + length :], f"{length} bytes lost from {start}"
    if kind == 10:
        block = content[start : start + length]
        return content[:start] + block + content[start:], f"{length} bytes repeated from {start}"
    if rng.random() < 0.3:
        return rng.choice((b"", b"\n", b"PK", b"PAR1PAR1", b"null", b"{}", b"\xff\xfe")), "something else altogether"
    place = rng.randrange(size)
    return content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :], f"byte {place} replaced"
