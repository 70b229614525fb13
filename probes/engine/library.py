"""A driver's shared library through ctypes: calls by name, refusals in words."""

import ctypes
from typing import Any

from ..protocol.errors import WorkerError


class EngineError(WorkerError, RuntimeError):
    """The driver refused a call, or lacks it; the text names the call and the error."""

    says_all = True
    """Whoever reads the text needs no name of a class before it."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code
        """The driver's number of the error; 0 where there is none."""


class DriverLibrary:
    """The functions of one shared library that return an error number."""

    def __init__(self, handle: Any, errors: "tuple[str, str]", *, errors_by_value: bool) -> None:
        """`errors`: the functions for an error's name and its sentence.

        `errors_by_value`: they return a text, as HIP's, instead of writing where it is.
        """
        self._handle = handle
        self._errors = errors
        self._errors_by_value = errors_by_value

    def has(self, name: str) -> bool:
        """Whether the library has this function."""
        try:
            self._handle[name]
        except AttributeError:
            return False
        return True

    def code(self, name: str, *arguments: Any) -> int:
        """Call a function and return its error number; EngineError where the library lacks it."""
        try:
            function = self._handle[name]
        except AttributeError:
            raise EngineError(f"this driver has no {name}: it is too old for gputop") from None
        return int(function(*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; EngineError with the driver's own words if it refuses."""
        code = self.code(name, *arguments)
        if code != 0:
            raise EngineError(f"{name} answered {code}{self._words(code)}", code)

    def _words(self, code: int) -> str:
        """The error's name and sentence, as in " (CUDA_ERROR_NO_DEVICE: no CUDA-capable ...)"."""
        said = [text for text in (self._text(name, code) for name in self._errors) if text]
        return f" ({': '.join(said)})" if said else ""

    def _text(self, name: str, code: int) -> str:
        if not self.has(name):
            return ""
        function = self._handle[name]
        raw: Any
        if self._errors_by_value:
            function.restype = ctypes.c_char_p
            raw = function(code)
        else:
            place = ctypes.c_char_p()
            raw = place.value if function(code, ctypes.byref(place)) == 0 else None
        return raw.decode("utf-8", "replace") if raw else ""
