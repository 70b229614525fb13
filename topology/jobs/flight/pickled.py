"""Reads the pickles that hold plain data alone, without running anything of them.

PyTorch writes dumps of its flight recorder with torch/csrc/jit/serialization/pickler.cpp, protocol
2; Python's own pickle writes protocol 4 for the same values. Both need the few opcodes below, as
Lib/pickletools.py of CPython describes them. Every other one, among them all that name a class or
a function, is refused.
"""

import struct
from typing import Any

from ...model.errors import GputopError

MOST_BYTES = 64 * 2**20
MOST_ITEMS = 4_000_000
"""Values that one file may build, those taken from the memo included."""
MOST_DEPTH = 64
MOST_MEMO = 1_000_000
LONGEST_INTEGER = 16
"""Bytes of an integer; a time in nanoseconds takes 8."""


class PickleError(GputopError, ValueError):
    """The file is no pickle of plain data; the message says where and why, in one line."""


class _Mark:
    pass


_MARK = _Mark()
_SIMPLE = {b"N": None, b"\x88": True, b"\x89": False}
_NUMBERS = {b"J": "<i", b"K": "<B", b"M": "<H", b"G": ">d"}
_TEXTS = {b"X": "<I", b"\x8c": "<B"}
_EMPTY: dict[bytes, type[Any]] = {b"}": dict, b"]": list, b")": tuple}
_TUPLES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}


def load(data: bytes) -> Any:
    """The value in a pickle: dict, list, tuple, str, int, float, bool or None inside each other.

    Raises PickleError for anything else.
    """
    if len(data) > MOST_BYTES:
        raise PickleError(f"more than {MOST_BYTES // 2**20} MiB")
    return _Machine(data).run()


def depth_of(value: Any) -> int:
    """How deep containers lie in each other; more than MOST_DEPTH counts as MOST_DEPTH + 1."""
    level: list[Any] = [value]
    for depth in range(MOST_DEPTH + 1):
        inner: dict[int, Any] = {}
        for each in level:
            members = each.values() if isinstance(each, dict) else each
            inner.update(
                (id(part), part) for part in members if isinstance(part, dict | list | tuple)
            )
        if not inner:
            return depth
        level = list(inner.values())
    return MOST_DEPTH + 1


class _Machine:
    """The stack and the memo of one file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.items = 0

    def run(self) -> Any:
        while True:
            code = self._take(1)
            if code == b".":
                break
            try:
                self._step(code)
            except (IndexError, TypeError, UnicodeDecodeError, struct.error) as error:
                raise PickleError(f"broken at byte {self.at}") from error
            self.items += 1
            if self.items > MOST_ITEMS:
                raise PickleError(f"more than {MOST_ITEMS} values")
        if len(self.stack) != 1 or isinstance(self.stack[0], _Mark):
            raise PickleError("does not end with one value")
        value = self.stack[0]
        # A container may hold itself: then the depth has no end.
        if isinstance(value, dict | list | tuple) and depth_of(value) > MOST_DEPTH:
            raise PickleError(f"more than {MOST_DEPTH} levels deep")
        return value

    def _take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise PickleError(f"ends early, at byte {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _step(self, code: bytes) -> None:
        stack = self.stack
        if code in _SIMPLE:
            stack.append(_SIMPLE[code])
        elif code in _NUMBERS:
            stack.append(self._number(_NUMBERS[code]))
        elif code in _TEXTS:
            stack.append(self._take(self._number(_TEXTS[code])).decode("utf-8", "replace"))
        elif code in _EMPTY:
            stack.append(_EMPTY[code]())
        elif code in _TUPLES:
            members = tuple(stack[-_TUPLES[code] :])
            if len(members) < _TUPLES[code] or _MARK in members:
                raise IndexError
            del stack[-_TUPLES[code] :]
            stack.append(members)
        elif code == b"\x8a":
            stack.append(self._integer())
        elif code == b"(":
            stack.append(_MARK)
        elif code in (b"e", b"u", b"t", b"a", b"s"):
            self._gather(code)
        else:
            self._rest(code)

    def _integer(self) -> int:
        count = self._number("<B")
        if count > LONGEST_INTEGER:
            raise PickleError(f"an integer of {count} bytes at byte {self.at}")
        return int.from_bytes(self._take(count), "little", signed=True)

    def _rest(self, code: bytes) -> None:
        if code == b"\x80":
            if self._number("<B") > 5:
                raise PickleError("a protocol that is not known")
        elif code == b"\x95":
            self._take(8)  # a frame, which says only how far to read ahead
        elif code in (b"q", b"r", b"\x94"):
            place = len(self.memo) if code == b"\x94" else self._place(code == b"q")
            if len(self.memo) >= MOST_MEMO:
                raise PickleError(f"more than {MOST_MEMO} entries in its memo")
            if self.stack[-1] is _MARK:
                raise IndexError
            self.memo[place] = self.stack[-1]
        elif code in (b"h", b"j"):
            place = self._place(code == b"h")
            if place not in self.memo:
                raise PickleError(f"broken at byte {self.at}")
            self.stack.append(self.memo[place])
        else:
            raise PickleError(
                f"opcode 0x{code[0]:02x} at byte {self.at - 1} is not among those of plain data"
            )

    def _place(self, short: bool) -> int:
        return int(self._number("<B" if short else "<I"))

    def _gather(self, code: bytes) -> None:
        """Put values into the container below them, or together into a tuple."""
        stack = self.stack
        if code in (b"a", b"s"):
            start = len(stack) - (1 if code == b"a" else 2)
            members, kept = stack[start:], start
        else:
            kept = self._mark()
            members = stack[kept + 1 :]
        if kept < 0 or _MARK in members:
            raise IndexError
        del stack[kept:]
        if code == b"t":
            stack.append(tuple(members))
        elif code in (b"e", b"a"):
            if not isinstance(stack[-1], list):
                raise TypeError
            stack[-1].extend(members)
        else:
            if not isinstance(stack[-1], dict) or len(members) % 2:
                raise TypeError
            keys = members[::2]
            # The hash of a deep tuple would run through C without any limit.
            if not all(isinstance(key, str | int) for key in keys):
                raise TypeError
            stack[-1].update(zip(keys, members[1::2], strict=True))

    def _mark(self) -> int:
        """Where the last mark lies; -1 where there is none."""
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] is _MARK:
                return at
        return -1
