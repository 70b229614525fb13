"""Numbers as the library keeps them."""

import struct


def single(value: float) -> float:
    """The nearest number that a 32-bit float holds: ties fall as they do in the library."""
    return float(struct.unpack("f", struct.pack("f", value))[0])
