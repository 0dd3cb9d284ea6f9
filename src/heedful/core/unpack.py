"""Packed bytes of a stranger: never more is unpacked than the size that they must have."""

from __future__ import annotations

import zlib


def unpacked(packed: bytes, size: int, form: int = zlib.MAX_WBITS) -> bytes:
    """Exactly `size` bytes; anything else raises ValueError.

    form   the `wbits` of zlib: MAX_WBITS | 16 for gzip
    """
    if size < 0:
        raise ValueError("a size cannot be below zero")
    try:
        data = zlib.decompressobj(form).decompress(packed, size + 1)  # zlib reads a limit of 0 as none
    except zlib.error as error:
        raise ValueError(f"it cannot be unpacked: {error}") from None
    if len(data) != size:
        raise ValueError(f"it does not unpack to {size:,} bytes")
    return data
