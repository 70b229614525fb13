"""Emits answers and figures of pairs as messages."""

from collections.abc import Callable
from typing import Any, Optional

from ...devices.devices import Backend
from ...protocol.messages import DeviceRecord, MeasuredValue, Message, Note
from ...protocol.quantity import Quantity
from ...protocol.timing import Sampled

STAGED = "copy, staged through the host"
"""The engine of a copy between two GPUs without peer access."""


class PairReporter:
    """Emits messages about pairs, with the method and the kind of devices."""

    def __init__(self, backend: Backend, method: str, emit: Callable[[Message], None]) -> None:
        self._kind = backend.kind
        self._method = method
        self._emit = emit

    def note(self, topic: str, text: str, **details: Any) -> None:
        """Emit a note."""
        self._emit(Note(topic, text, details))

    def say(
        self,
        quantity: Quantity,
        src: Optional[DeviceRecord],
        dst: Optional[DeviceRecord],
        engine: str,
        direction: str,
        **more: Any,
    ) -> None:
        """Emit a measured value; `more`: its other fields."""
        self._emit(
            MeasuredValue(
                name=quantity.key,
                src=src.key if src else "",
                dst=dst.key if dst else "",
                method=self._method,
                device_kind=self._kind,
                engine=engine,
                direction=direction,
                **more,
            )
        )

    def figure(
        self,
        quantity: Quantity,
        src: Optional[DeviceRecord],
        dst: Optional[DeviceRecord],
        engine: str,
        direction: str,
        sampled: Sampled,
        size_bytes: int,
        copies: int,
        *,
        attempt: int = 1,
        counted: str = "",
        digits: int = 3,
        **more: Any,
    ) -> None:
        """Emit a median with its samples."""
        self.say(
            quantity, src, dst, engine, direction,
            value=round(sampled.median, digits),
            unit=quantity.unit,
            minimum=round(min(sampled.samples), digits),
            maximum=round(max(sampled.samples), digits),
            samples=tuple(round(sample, digits) for sample in sampled.samples),
            bytes_per_copy=size_bytes,
            copies_per_sample=copies,
            attempt=attempt,
            why=None if attempt == 1 else "measured twice: low or restless at first",
            counted=counted or quantity.counted,
            **more,
        )  # fmt: skip
