"""How a run ended, as a value and as a sentence."""

import signal
from dataclasses import dataclass
from typing import Optional

from .messages import Hello, Log, MeasuredValue, Note
from .plaintext import one_line, plain
from .status import Status


@dataclass(frozen=True)
class Outcome:
    """The end of one run, with everything measured before it."""

    status: Status
    """A kill is a normal outcome; figures from before it stay valid."""
    message: str
    """One sentence for people, plain text."""
    elapsed_seconds: float
    hello: Optional[Hello] = None
    measurements: tuple[MeasuredValue, ...] = ()
    """All messages in order; `latest()` leaves out values that were measured again."""
    notes: tuple[Note, ...] = ()
    logs: tuple[Log, ...] = ()
    """Pieces of the debug logs, in order for each rank; `log_of` joins them."""
    exit_code: Optional[int] = None
    """The worker's own exit code; None when a signal ended it."""
    signal_name: Optional[str] = None
    stderr_tail: str = ""
    """The last lines that the worker printed, without control characters."""
    left_behind: bool = False
    """True when a process survived SIGKILL because it is stuck in a driver call."""

    def latest(self) -> "tuple[MeasuredValue, ...]":
        """The last measurement of each name, ordered pair, variant and size."""
        # Copies of a pair keep their size when measured again; an all-reduce has several.
        by_place = {
            (m.name, m.src, m.dst, m.variant, m.bytes_per_copy): m for m in self.measurements
        }
        return tuple(by_place.values())

    def ranks_logged(self) -> "tuple[int, ...]":
        """The ranks whose debug logs came back, in order."""
        return tuple(sorted({piece.rank for piece in self.logs}))

    def log_of(self, rank: int) -> str:
        """The whole debug log of one rank; a line marks omitted bytes."""
        text = []
        for piece in self.logs:
            if piece.rank == rank:
                if piece.cut_bytes:
                    text.append(f"\n[gputop left out {piece.cut_bytes} bytes here]\n")
                text.append(piece.text)
        return "".join(text)


def ended_by(return_code: "int | None") -> "tuple[int | None, str | None]":
    """Exit code and signal name from a return code: negative or 128 + n stands for signal n."""
    if return_code is None:
        return None, None
    number = -return_code if return_code < 0 else return_code - 128
    if return_code >= 0 and not 0 < number < 65:
        return return_code, None
    try:
        return None, signal.Signals(number).name
    except ValueError:
        return None, f"signal {number}"


def death_sentence(exit_code: Optional[int], signal_name: Optional[str], stderr_tail: str) -> str:
    """Why a worker ended without a last message."""
    if signal_name == "SIGKILL":
        end = "was killed (SIGKILL: by hand, or by the kernel when memory ran out)"
    elif signal_name is not None:
        end = f"crashed ({signal_name})"
    else:
        end = f"ended without an answer (exit code {exit_code})"
    last = [line for line in stderr_tail.splitlines() if line.strip()][-1:]
    return f"The probe's process {end}" + (f": {one_line(last[0])}" if last else ".")


def tail(raw: bytes, lines: int = 20) -> str:
    """The last printed lines, made safe to show."""
    text = plain(raw.decode("utf-8", "replace"), 4000)
    return "\n".join(text.strip().splitlines()[-lines:])
