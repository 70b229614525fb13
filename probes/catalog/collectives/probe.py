"""Collectives of NCCL or RCCL: bus bandwidth against message size.

All-reduce, all-gather, reduce-scatter, all-to-all, broadcast and a ring of send/receive, float32,
one process on each selected GPU, in the job's own environment, by the library alone where it is
found, else through torch.distributed. `operations` says what is sent, what
counts and which forms there are; `rank` how they are timed; `plan` holds sizes and time limits.
The reference is nccl-tests: from 16 MiB up its default run, below that a run that launches do not
limit.

Parameters: `level`, `force`, `large` (4 and 8 GiB too), `operations` (a list of names).
"""

import json
import time
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, Optional

from ...crew.accelerator import Call
from ...crew.crew import Crew, Trouble
from ...crew.probe import run_crew
from ...crew.rank import Member
from ...crew.steps import INIT, MIB, Step
from ...protocol.messages import MeasuredValue, Message, Note, WorkerRequest
from ...protocol.spec import ProbeSpec, level_of
from ...protocol.status import DeviceKind
from ...protocol.timing import Sampled, gigabytes_per_second
from .operations import BY_NAME, FLOAT_BYTES, MISSING_FORMS, OPERATIONS, Operation
from .plan import GIB, MEASURING_SECONDS, PARTS, SELF_TEST, Clock, Repeats, repeats, shown, steps

# One rank of the probe collectives: checks and times each operation at each size.
#
# A call is timed in up to two ways. In a row: a tiny all-reduce aligns the ranks, then several
# calls follow each other between two device events, as nccl-tests does with the host's clock. Held:
# the same calls are queued while a kernel that only waits holds the GPU, so that the host's cost of
# a call is paid beforehand. A sample is the mean of all ranks, as in nccl-tests (its option -a);
# the details hold the slowest rank. A late host can only lengthen either time, so the figure is the
# shorter of both medians, and the details hold both. A captured CUDA graph is no alternative: while
# it captures, the library may register the buffers and move the data in another way than in a plain
# job. Holding also needs no agreement of all ranks on what was captured, and it ends by itself.
#
# Each of twenty calls in a row uses other parts of two large buffers, as in nccl-tests. So the call
# before leaves no data of it in a cache where the twenty exceed that: from 4 MiB on, on an H100.
LIBRARY_BYTES = 1536 * MIB
"""Memory for the library with many channels, and for patterns while data is checked."""
SMALLEST_ROOM_BYTES = 64 * MIB
_WARM_SECONDS = 0.3
_WARM_BYTES = 64 * MIB
_MOST_WARM_CALLS = 200
_FEWEST_HELD = 3
_HOST_BOUND = 0.85
"""If queueing takes at least this part of a call, the GPU waits for the host."""
_HOLD_FACTOR, _HOLD_SECONDS, _LONGEST_HOLD_SECONDS = 2.0, 0.0005, 0.05
"""The GPU is held for this many times the queueing time, and longer by a constant because ranks
start unevenly. A hold that was too short is doubled up to a limit: a call may wait for the GPU."""


Samples = Sequence["tuple[float, ...]"]
"""Seconds of one call, by sample and rank."""


def _middle(samples: "Samples", of_ranks: "Callable[[Sequence[float]], float]" = fmean) -> float:
    """The median over samples of one figure of all ranks."""
    return Sampled(tuple(of_ranks(ranks) for ranks in samples)).median


def _is_lack(error: Exception) -> bool:
    """Whether the library lacks the call, as opposed to a failed call."""
    return "support" in str(error) or "implement" in str(error)


class CollectiveMember(Member):
    """One rank of the probe collectives."""

    _send: Any = None
    _receive: Any = None
    _tiny: Any = None
    _started = 0.0
    _clock: Clock
    _plan: "tuple[Step, ...]" = ()

    def needed_bytes(self) -> int:
        """Enough for sizes up to 64 MiB; larger ones are left out if they do not fit."""
        return LIBRARY_BYTES + 2 * SMALLEST_ROOM_BYTES

    def take(self, step: Step) -> None:
        """Do one step and report it."""
        if step.name == INIT.name:
            self._prepare()
        else:
            self._measure(step)

    def _prepare(self) -> None:
        """Create the communicator and the buffers, and wake the links."""
        here = self.here
        self._plan = steps(self.ranks, self.params, here.kind == DeviceKind.CPU)
        self._level = level_of(self.params)
        self._clock = Clock(self._plan, MEASURING_SECONDS[self._level])
        self._lacking: dict[str, str] = {}
        self._skipped: list[str] = []
        self._cut: list[str] = []
        self.group.open(eager=True)
        wanted = sorted({step.size_bytes for step in self._plan if step.size_bytes})
        room = self._room_bytes()
        fitting = [size for size in wanted if room is None or size <= room]
        if len(fitting) < len(wanted) and self.rank == 0:
            words = ", ".join(shown(size) for size in wanted if size not in fitting)
            text = f"Left out, as they do not fit beside what is left to others: {words}."
            self.emit(Note("memory", text, {"left_out_bytes": wanted[len(fitting) :]}))
        if self.rank == 0:
            self.emit(Note("forms", MISSING_FORMS))
        self._largest = fitting[-1] if fitting else 0
        self._send = here.numbers(self._largest // FLOAT_BYTES)
        self._receive = here.numbers(self._largest // FLOAT_BYTES)
        self._tiny = here.numbers(1)
        if self._largest:
            self._warm()
        self._started = time.monotonic()

    def _room_bytes(self) -> Optional[int]:
        """The largest size whose two buffers fit on every GPU; None without a limit."""
        rooms = [
            ((device.free_bytes or 0) - self.reserve_bytes(device) - LIBRARY_BYTES) // 2
            for device in self.devices
            if device.memory_bytes
        ]
        return min(rooms) if rooms else None

    def _warm(self) -> None:
        """Warm up: links and clocks take 0.2 to 0.5 s to wake."""
        data = self._receive[: _WARM_BYTES // FLOAT_BYTES]
        reduce = self.group.all_reduce(data)
        reduce()
        once = self.here.seconds(reduce, 1)
        slowest = max(float(text) for text in self.share("warm", f"{once:.9f}"))
        if self.here.kind != DeviceKind.CPU:
            times = max(1, min(_MOST_WARM_CALLS, int(_WARM_SECONDS / slowest)))
            self.here.seconds(reduce, times)

    def _measure(self, step: Step) -> None:
        place = self._plan.index(step)
        operation = BY_NAME[step.name]
        if operation.name in self._lacking or step.size_bytes > self._largest:
            pass
        elif not self._clock.begin(place, step.size_bytes):
            self._skipped.append(step.what)
        else:
            self._time(step, place, operation)
        if place + 1 == len(self._plan):
            self._note_cuts()

    def _time(self, step: Step, place: int, operation: Operation) -> None:
        here = self.here
        numbers = operation.numbers(step.size_bytes, self.ranks)
        calls = self._calls(operation, step.variant, numbers)
        try:
            wrong, checked = self._check(operation, step.variant, numbers, calls[0])
        except (RuntimeError, NotImplementedError, ValueError) as error:
            if here.kind != DeviceKind.CPU or not _is_lack(error):
                raise
            self._lacks(operation, step, f"{type(error).__name__}: {error}")
            return
        # The first call of an operation also creates its connections.
        once = min(here.seconds(calls[-1], 1) for _ in range(2))
        tried = {"once": once, "wrong": wrong, "checked": checked}
        heard = self._hear(f"tried/{place}", tried)
        once = max(answer["once"] for answer in heard)
        wrong, checked = (sum(answer[key] for answer in heard) for key in ("wrong", "checked"))
        often = repeats(self._level, once, self._clock.allowed(place))
        if here.kind == DeviceKind.CPU:
            often = SELF_TEST
        taken = self._samples(calls, often)
        heard = self._hear(f"taken/{place}", taken)
        in_a_row = list(zip(*(answer["row"] for answer in heard)))
        # If one rank was not held long enough, the samples of all ranks are void.
        held = [ranks for ranks in zip(*(answer["held"] for answer in heard)) if None not in ranks]
        queued = max(answer["queued"] for answer in heard)
        self._clock.end(heard[0]["now"], step.size_bytes, _middle(in_a_row, max))
        if often.cut:
            self._cut.append(step.what)
        if self.rank == 0:
            verdict = "wrong-data" if wrong else "verified"
            found = {"verdict": verdict, "checked_bytes": checked, "wrong_bytes": wrong}
            self._report(operation, step, numbers, often, in_a_row, held, queued, found)

    def _hear(self, topic: str, said: "dict[str, Any]") -> "list[dict[str, Any]]":
        return [json.loads(text) for text in self.share(topic, json.dumps(said))]

    def _calls(self, operation: Operation, form: str, numbers: int) -> "list[Call]":
        """A call for each part of this size in the buffers, at most `PARTS`."""
        found = []
        for at in range(0, self._receive.numel() - numbers + 1, numbers)[:PARTS]:
            send, receive = self._send[at : at + numbers], self._receive[at : at + numbers]
            given, result = operation.places(send, receive, self.rank, self.ranks, form)
            found.append(operation.call(self.group, given, result, self.rank, self.ranks))
        return found

    def _check(
        self, operation: Operation, form: str, numbers: int, call: Call
    ) -> "tuple[int, int]":
        """Make one call with known data; returns the wrong and the checked bytes of this rank."""
        here, send, receive = self.here, self._send[:numbers], self._receive[:numbers]
        given, result = operation.places(send, receive, self.rank, self.ranks, form)
        here.clear(receive)
        here.fill(given, self.rank)
        call()
        here.wait()
        wrong = checked = 0
        for arrival in operation.arrivals(result, self.rank, self.ranks):
            wrong += here.wrong_bytes(arrival.data, arrival.ranks, arrival.start)
            checked += FLOAT_BYTES * arrival.data.numel()
        return wrong, checked

    def _samples(self, calls: "list[Call]", often: Repeats) -> "dict[str, Any]":
        """Seconds of one call by sample, in both ways, and seconds of queueing one."""
        here = self.here
        row: list[float] = []
        queueing: list[float] = []
        one_sample = [calls[place % len(calls)] for place in range(often.calls)]
        # The operation itself would not do: in a ring a rank waits for its neighbours alone.
        lead = self.group.all_reduce(self._tiny)
        for _ in range(often.samples):
            lead()
            seconds, queued = here.in_a_row(one_sample)
            row.append(seconds)
            queueing.append(queued)
        hold_seconds = max(queueing) * (often.calls + 1) * _HOLD_FACTOR + _HOLD_SECONDS
        hold_seconds = min(hold_seconds, _LONGEST_HOLD_SECONDS)
        return {
            "row": row,
            "queued": min(queueing),
            "held": self._held(lead, one_sample, hold_seconds, often.samples if often.held else 0),
            "now": time.monotonic() - self._started,
        }

    def _held(
        self, lead: Call, one_sample: "list[Call]", seconds: float, samples: int
    ) -> "list[Optional[float]]":
        """Seconds of one call with the GPU held, by sample; None where the hold ended early."""
        taken: list[Optional[float]] = []
        for _ in range(samples):
            taken.append(self.here.held(lead, one_sample, seconds))
            if taken[-1] is None:
                seconds = min(2 * seconds, _LONGEST_HOLD_SECONDS)
        return taken

    def _report(
        self,
        operation: Operation,
        step: Step,
        numbers: int,
        often: Repeats,
        in_a_row: "Samples",
        held: "Samples",
        queued: float,
        found: "dict[str, Any]",
    ) -> None:
        size = numbers * FLOAT_BYTES
        row_seconds = _middle(in_a_row)
        on_gpu = self.here.kind != DeviceKind.CPU
        is_host_bound = on_gpu and queued >= _HOST_BOUND * row_seconds
        times = in_a_row
        if len(held) >= _FEWEST_HELD and _middle(held) < row_seconds:
            times = held
        seconds = _middle(times)
        how = "queued while the GPU was held" if times is held else "one after the other"
        if is_host_bound and times is not held:
            found = {**found, "why": "The host queues calls no faster: it may be the limit."}
        factor = operation.factor(self.ranks)
        details = {
            "algbw_gbs": round(gigabytes_per_second(size, seconds), 3),
            "time_us": round(seconds * 1e6, 3),
            "slowest_rank_us": round(_middle(times, max) * 1e6, 3),
            "timing": f"{often.calls} calls {how}",
            "in_a_row_us": round(row_seconds * 1e6, 3),
            "held_us": round(_middle(held) * 1e6, 3) if held else None,
            "queueing_us": round(queued * 1e6, 3) if on_gpu else None,
            # bytes_per_copy, rounded to parts of 16 bytes for each rank.
            "size_bytes": size,
            "ranks": self.ranks,
            "dtype": "float32",
            "variables": dict(self.params.get("variables", {})),
        }
        taken = Sampled(
            tuple(factor * gigabytes_per_second(size, fmean(by_rank)) for by_rank in times)
        )
        self.figure(
            operation.quantity, "", "",
            f"{step.what}, by all {self.ranks} ranks", taken,
            variant=step.variant, details=details,
            bytes_per_copy=step.size_bytes, copies_per_sample=often.calls, **found,
        )  # fmt: skip

    def _lacks(self, operation: Operation, step: Step, why: str) -> None:
        """Report that the self-test's library lacks the call, without a figure."""
        self._lacking[operation.name] = why
        if self.rank == 0:
            self.say(
                operation.quantity, "", "", f"{operation.title} by all {self.ranks} ranks",
                variant=step.variant, bytes_per_copy=step.size_bytes,
                why=f"{self.here.library} has no such call here: {why}"[:400],
            )  # fmt: skip

    def _note_cuts(self) -> None:
        """Note at the end what a slow transport left no time for."""
        if self.rank != 0:
            return
        if self._skipped:
            text = f"Left out, as there was no time at this speed: {'; '.join(self._skipped)}."
            self.emit(Note("left-out", text, {"left_out": self._skipped}))
        if self._cut:
            text = f"Timed less often, as the transport is slow: {'; '.join(self._cut)}."
            self.emit(Note("fewer-samples", text, {"figures": self._cut}))


SPEC = ProbeSpec(
    name="collectives",
    title="Collectives",
    measures=(
        "Bus bandwidth of all-reduce, all-gather, reduce-scatter, all-to-all, broadcast and "
        "send/receive from 1 KiB to 1 GiB, as nccl-tests defines it, by NCCL or RCCL "
        "with the environment of this shell; the data is checked."
    ),
    method="collectives/3",
    minimum_gpus=2,
    memory_bytes_per_gpu=LIBRARY_BYTES + 2 * GIB,
    start_seconds=3.0,
    seconds_per_gpu=0.25,
    seconds_per_pair=0.0,
    seconds_alone=10.5,
    level_factors={"quick": 0.28, "normal": 1.0, "full": 4.0},
    by_library=True,
    quantities=tuple(operation.quantity for operation in OPERATIONS),
)

Emit = Callable[[Message], None]


def run(request: WorkerRequest, emit: Emit) -> None:
    """Run all ranks; each rank also enters here. ProbeStopped if they do not reach the end."""
    run_crew(request, emit, SPEC, steps, CollectiveMember, answer=_answer)


def _answer(trouble: Trouble, crew: Crew) -> "MeasuredValue | None":
    """A collective that does not end is a finding; one that never began is only a message."""
    step = trouble.step
    if step.name not in BY_NAME:
        return None
    return MeasuredValue(
        name=BY_NAME[step.name].quantity.key,
        src="",
        dst="",
        method=SPEC.method,
        device_kind=crew.device_kind,
        engine=crew.library,
        direction=step.what,
        verdict=trouble.error,
        why=trouble.text,
        bytes_per_copy=step.size_bytes,
        variant=step.variant,
    )
