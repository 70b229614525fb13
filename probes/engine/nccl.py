"""NCCL and RCCL by themselves, through ctypes: libnccl.so.2 or librccl.so.1.

Both have the same functions, and those here have kept their arguments since NCCL 2.7. A call works
on the device that is current in the calling thread, and queues on a stream of it.
"""

import ctypes
import time
from collections.abc import Sequence
from typing import Any, Callable

from ..protocol.errors import WorkerError

_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_FLOAT32, _SUM = 7, 0
"""ncclFloat32 and ncclSum, from nccl.h."""
_IN_PROGRESS = 7
_RESULTS = (
    "ncclSuccess", "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError",
    "ncclInvalidArgument", "ncclInvalidUsage", "ncclRemoteError", "ncclInProgress",
)  # fmt: skip
_PAUSE_SECONDS = 0.0005

Call = Callable[[], object]
Part = tuple[int, int]
"""An address, and how many numbers of float32."""


class NcclError(WorkerError, RuntimeError):
    """The library cannot be used, or refused a call; in its own words."""

    says_all = True
    """As EngineError's: no name of a class before it."""


class _UniqueId(ctypes.Structure):
    """ncclUniqueId, which is passed by value."""

    _fields_ = [("internal", ctypes.c_byte * 128)]


_TWO_ENDS = _POINTER, _POINTER, _SIZE, _INT
_ONE_END = _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER
_ARGUMENTS: "dict[str, tuple[Any, ...]]" = {
    "ncclGetVersion": (_POINTER,),
    "ncclGetUniqueId": (_POINTER,),
    "ncclCommInitRank": (_POINTER, _INT, _UniqueId, _INT),
    "ncclCommGetAsyncError": (_POINTER, _POINTER),
    "ncclAllReduce": (*_TWO_ENDS, _INT, _POINTER, _POINTER),
    "ncclAllGather": (*_TWO_ENDS, _POINTER, _POINTER),
    "ncclReduceScatter": (*_TWO_ENDS, _INT, _POINTER, _POINTER),
    "ncclBroadcast": (*_TWO_ENDS, _INT, _POINTER, _POINTER),
    "ncclSend": _ONE_END,
    "ncclRecv": _ONE_END,
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
    "ncclGetErrorString": (_INT,),
}


class Nccl:
    """One library."""

    def __init__(self, path: str) -> None:
        """Load it, which touches no device; NcclError if it cannot be loaded or lacks a call."""
        try:
            self._handle = ctypes.CDLL(path)
        except OSError as error:
            raise NcclError(f"the library cannot be loaded: {error}") from error
        self.functions: dict[str, Any] = {}
        for name, arguments in _ARGUMENTS.items():
            try:
                function = self._handle[name]
            except AttributeError:
                text = f"{path} has no {name}: it is no NCCL or RCCL, or too old"
                raise NcclError(text) from None
            function.argtypes, function.restype = arguments, ctypes.c_int
            self.functions[name] = function
        self.functions["ncclGetErrorString"].restype = ctypes.c_char_p

    def version(self) -> str:
        """Its version: 2.28.9."""
        number = ctypes.c_int()
        self.call("ncclGetVersion", ctypes.byref(number))
        # nccl.h counts 2.8.4 as 2804 and 2.9.6 as 20906.
        big, rest = divmod(number.value, 1000 if number.value < 10000 else 10000)
        return f"{big}.{rest // 100}.{rest % 100}"

    def unique_id(self) -> bytes:
        """What all ranks of a communicator are given; opens the meeting point in this process."""
        made = _UniqueId()
        self.call("ncclGetUniqueId", ctypes.byref(made))
        return bytes(made)

    def communicator(self, unique_id: bytes, rank: int, ranks: int) -> "NcclCommunicator":
        """Join as one rank, on the current device; waits for all."""
        handle = ctypes.c_void_p()
        known = _UniqueId.from_buffer_copy(unique_id)
        name = "ncclCommInitRank"
        code = self.functions[name](ctypes.byref(handle), ranks, known, rank)
        made = NcclCommunicator(self, handle)
        made.settle(name, code)
        return made

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that has no communicator."""
        code = self.functions[name](*arguments)
        if code:
            raise NcclError(self.words(name, code))

    def words(self, name: str, code: int, communicator: Any = None) -> str:
        """What the library says of an error: name, call, sentence and the last warning."""
        word = _RESULTS[code] if 0 <= code < len(_RESULTS) else f"ncclResult {code}"
        said = (self.functions["ncclGetErrorString"](code) or b"").decode("utf-8", "replace")
        said = said.partition(" (run with ")[0]  # the log is on already
        last = " ".join(self._last_error(communicator).split())
        return f"{word} of {name}: {said}{'; ' if last else ''}{last}"

    def _last_error(self, communicator: Any) -> str:
        """The sentence of the library's last warning, from NCCL 2.13 on."""
        try:
            function = self._handle["ncclGetLastError"]
        except AttributeError:
            return ""
        function.argtypes, function.restype = (_POINTER,), ctypes.c_char_p
        return (function(communicator) or b"").decode("utf-8", "replace")


class NcclCommunicator:
    """One rank's side of a communicator. Every function prepares a call on a stream."""

    def __init__(self, nccl: Nccl, handle: Any) -> None:
        self._nccl = nccl
        self._handle = handle

    def all_reduce(self, data: Part, stream: Any) -> Call:
        """Add up float32 in place."""
        at, count = data
        return self._call("ncclAllReduce", at, at, count, _FLOAT32, _SUM, self._handle, stream)

    def all_gather(self, given: Part, to: int, stream: Any) -> Call:
        """Gather one part of each rank."""
        at, count = given
        return self._call("ncclAllGather", at, to, count, _FLOAT32, self._handle, stream)

    def reduce_scatter(self, source: int, result: Part, stream: Any) -> Call:
        """Add up; each rank gets its part."""
        at, count = result
        more = _FLOAT32, _SUM, self._handle, stream
        return self._call("ncclReduceScatter", source, at, count, *more)

    def broadcast(self, data: Part, root: int, stream: Any) -> Call:
        """Send from one rank to all, in place."""
        at, count = data
        return self._call("ncclBroadcast", at, at, count, _FLOAT32, root, self._handle, stream)

    def exchange(
        self, sends: "Sequence[tuple[Part, int]]", receives: "Sequence[tuple[Part, int]]",
        stream: Any,
    ) -> Call:  # fmt: skip
        """Send and receive parts at once: each with its rank."""
        functions = self._nccl.functions
        start, end = functions["ncclGroupStart"], functions["ncclGroupEnd"]
        both = [("ncclSend", *one) for one in sends] + [("ncclRecv", *one) for one in receives]
        calls = [
            self._call(name, at, count, _FLOAT32, peer, self._handle, stream)
            for name, (at, count), peer in both
        ]

        def exchange() -> None:
            start()
            for call in calls:
                call()
            code = end()
            if code:
                self.settle("ncclGroupEnd", code)

        return exchange

    def _call(self, name: str, *arguments: Any) -> Call:
        function = self._nccl.functions[name]

        def call() -> None:
            code = function(*arguments)
            if code:
                self.settle(name, code)

        return call

    def settle(self, name: str, code: int) -> None:
        """Raise NcclError for the answer of a call; wait first if NCCL_COMM_BLOCKING is 0."""
        if code == _IN_PROGRESS:
            code = self._in_the_end()
        if code:
            raise NcclError(self._nccl.words(name, code, self._handle))

    def _in_the_end(self) -> int:
        state = ctypes.c_int(_IN_PROGRESS)
        while True:
            place = ctypes.byref(state)
            code: int = self._nccl.functions["ncclCommGetAsyncError"](self._handle, place)
            if code or state.value != _IN_PROGRESS:
                return code or state.value
            time.sleep(_PAUSE_SECONDS)
