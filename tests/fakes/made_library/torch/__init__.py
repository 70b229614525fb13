"""Stands in for torch in the ranks of a self-test: a start takes a twentieth of the time.

A tensor is one number and how often it stands there; slices share the number of their whole. That
is enough for all-reduce, broadcast, send and receive, whose data is the same pattern everywhere.
`distributed` moves it.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from . import distributed as distributed

__version__ = "2.9.0+made"
version = SimpleNamespace(cuda=None, hip=None)
cuda = SimpleNamespace(is_available=lambda: False)
int64, float32 = "int64", "float32"


class Tensor:
    """A number, `count` times; `cell` holds it for all slices."""

    def __init__(self, count: int, cell: list[int]) -> None:
        self.count, self.cell = count, cell

    def numel(self) -> int:
        return self.count

    def item(self) -> int:
        return self.cell[0]

    def clone(self) -> Tensor:
        return Tensor(self.count, list(self.cell))

    def to(self, dtype: str) -> Tensor:
        return self.clone()

    def sum(self) -> Tensor:
        return Tensor(1, [self.cell[0] * self.count])

    def fill_(self, number: int) -> Tensor:
        self.cell[0] = number
        return self

    def zero_(self) -> Tensor:
        return self.fill_(0)

    def copy_(self, other: Tensor) -> Tensor:
        return self.fill_(other.item())

    def bitwise_and_(self, mask: int) -> Tensor:
        return self.fill_(self.item() & mask)

    def __getitem__(self, part: slice) -> Tensor:
        return Tensor(len(range(*part.indices(self.count))), self.cell)

    def __mul__(self, factor: int) -> Tensor:
        return Tensor(self.count, [self.item() * factor])

    def __add__(self, addend: Tensor | int) -> Tensor:
        number = addend if isinstance(addend, int) else addend.item()
        return Tensor(self.count, [self.item() + number])

    def __rshift__(self, bits: int) -> Tensor:
        return Tensor(self.count, [self.item() >> bits])

    def __iadd__(self, addend: Tensor | int) -> Tensor:
        return self.fill_((self + addend).item())

    def __ne__(self, other: object) -> Any:
        assert isinstance(other, Tensor)
        return Tensor(self.count, [int(self.item() != other.item())])

    __hash__ = None  # type: ignore[assignment]


def empty(count: int, **more: str) -> Tensor:
    return Tensor(count, [0])


def zeros(shape: tuple[()], **more: str) -> Tensor:
    return Tensor(1, [0])


def arange(start: int, end: int, **more: str) -> Tensor:
    return Tensor(end - start, [start])


def set_num_threads(threads: int) -> None:
    """There are none."""
