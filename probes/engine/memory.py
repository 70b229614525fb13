"""A range of memory that devices can reach."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Memory:
    """A range of bytes that devices can reach."""

    address: int
    size_bytes: int

    def part(self, start: int, size_bytes: int) -> "Memory":
        """Bytes from `start` on."""
        assert 0 <= start <= start + size_bytes <= self.size_bytes
        return Memory(self.address + start, size_bytes)
