"""Does a collective finish? NCCL or RCCL itself in the job's environment (rung 4 of the ladder).

One process for each selected GPU, ranks in PCI order, each with access to all GPUs. They create the
communicator, check and time two all-reduces, then move and compare data for every ordered pair, so
that the debug log names each transport; the log is part of the answer. A failing library is an
answer too: a measurement with the verdict "failed" or "timed-out", and its warnings.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from ...crew.accelerator import Call
from ...crew.crew import Crew, Trouble
from ...crew.own_diagnostics import forget_link, milliseconds, switch_on
from ...crew.probe import run_crew
from ...crew.rank import Member
from ...crew.steps import INIT, MIB, OPEN, Step
from ...protocol.messages import MeasuredValue, Message, Note, WorkerRequest
from ...protocol.quantity import DEVICE, PAIR, RANKS, Quantity
from ...protocol.spec import ProbeSpec
from ...protocol.status import DeviceKind
from ...protocol.timing import Sampled, gigabytes_per_second

NEEDED_BYTES = 2048 * MIB
"""Memory on each GPU: buffers of the library, up to 1.5 GB with many channels, and ours."""
SAMPLES = 5
WARM_SAMPLES = 4
"""Samples before the first that counts."""
_SLOW_SECONDS = 0.1
"""If the first try takes longer than this, fewer samples are taken."""
_OFTEN = 8
"""Calls of a sample from which the GPU is held meanwhile: fewer are of a slow transport."""
_HOLD_SECONDS = 0.003
"""Longer than queueing ten calls takes, through torch too."""
_ALL_REDUCE_BYTES = (4 * MIB, 64 * MIB)
_TRANSFER_BYTES = 16 * MIB
_NUMBER_BYTES = 4
_ALL_REDUCE, _TRANSFER = "all-reduce", "transfer"
"""Kinds of steps besides those of every probe with ranks."""
_CPU_BYTES = (MIB, 2 * MIB)
"""Sizes of the self-test's all-reduces; its transfers have the first size."""

# The quantities of NCCL or RCCL itself, and what its debug log says.
_BROKEN = ("wrong-data", "failed", "timed-out")

COMMUNICATOR = Quantity(
    "communicator_init",
    "communicator init",
    unit="s",
    per=DEVICE,
    more_is_better=False,
    in_check=True,
)
FINISHES = Quantity(
    "collective_finishes",
    "collective finishes",
    unit="",
    per=RANKS,
    broken=_BROKEN,
    in_check=True,
)
ALGBW = Quantity("all_reduce_algbw", "all reduce algbw", per=RANKS, over_sizes=True, in_check=True)
BUSBW = Quantity(
    "all_reduce_busbw", "all reduce", per=RANKS, over_sizes=True, headline=True, in_check=True
)
SEND_RECEIVE = Quantity(
    "send_receive",
    "send receive",
    per=PAIR,
    heading="send and receive, compared, GB/s: row sends, column receives",
    broken=_BROKEN,
    on_pairs=None,
)
TRANSPORT = Quantity("transport", "transport", unit="", per=PAIR, in_check=True)
"""A word from the debug log; the app reads it from the log itself."""
QUANTITIES = (COMMUNICATOR, FINISHES, ALGBW, BUSBW, SEND_RECEIVE, TRANSPORT)


def steps(ranks: int, params: Mapping[str, Any], cpu: bool) -> "tuple[Step, ...]":
    """All steps of a run in order; smaller ones for the self-test."""
    sizes, transfer_bytes = _ALL_REDUCE_BYTES, _TRANSFER_BYTES
    if cpu:
        sizes, transfer_bytes = _CPU_BYTES, _CPU_BYTES[0]
    return (
        OPEN,
        INIT,
        *(
            Step(_ALL_REDUCE, f"all-reduce of {size // MIB} MiB", size, first=place == 0)
            for place, size in enumerate(sizes)
        ),
        *(
            Step(_TRANSFER, f"rank {src} sends, rank {dst} receives", transfer_bytes, src, dst)
            for src in range(ranks)
            for dst in range(ranks)
            if src != dst
        ),
    )


class NcclMember(Member):
    """One rank of the probe nccl."""

    _data: Any = None
    _mine: Any = None
    """Numbers for the largest step, moved and as they were."""

    def take(self, step: Step) -> None:
        """Do one step and report it."""
        if step.name == INIT.name:
            self._initialise()
        elif step.name == _ALL_REDUCE:
            self._all_reduce(step)
        else:
            self._transfer(step)

    def _initialise(self) -> None:
        """Create the communicator with the first collective."""
        here, folder = self.here, str(self.params.get("folder", ""))
        own = switch_on(self.params.get("nccl"), folder, self.rank)
        one = here.numbers(1)
        started = time.perf_counter()
        self.group.open(eager=False)
        self.group.all_reduce(one)()
        here.wait()
        seconds = round(time.perf_counter() - started, 3)
        direction = f"rank {self.rank}, up to its first all-reduce of 4 bytes"
        if own:
            forget_link(folder)
            took = self.share("own diagnostics", str(milliseconds(folder, self.rank) or 0))[0]
            seconds = max(0.0, round(seconds - float(took) / 1000, 3))
            direction += f", without the {float(took):.0f} ms of the library's own diagnostics"
            self._tell_of(own)
        self.say(
            COMMUNICATOR,
            self.devices[self.rank].key,
            "",
            direction,
            value=seconds,
            unit=COMMUNICATOR.unit,
        )
        sizes = _CPU_BYTES if here.kind == DeviceKind.CPU else (*_ALL_REDUCE_BYTES, _TRANSFER_BYTES)
        self._data, self._mine = (here.numbers(max(sizes) // _NUMBER_BYTES) for _ in range(2))

    def _tell_of(self, own: "dict[str, str]") -> None:
        """Say once which diagnostics of the library run too."""
        if self.rank == 0:
            named = ", ".join(f"{name}={value}" for name, value in own.items())
            text = f"The library's own diagnostics run too ({named}); 0 leaves one out."
            self.emit(Note("diagnostics", text, {"variables": own}))

    def _all_reduce(self, step: Step) -> None:
        here, size = self.here, step.size_bytes
        data, mine = (all_of[: size // _NUMBER_BYTES] for all_of in (self._data, self._mine))
        reduce = self.group.all_reduce(data)
        here.fill(mine, self.rank)
        here.copy(data, mine)
        reduce()
        wrong = here.wrong_bytes(data, range(self.ranks))
        total = sum(map(int, self.share(f"wrong/{size}", str(wrong))))
        direction = f"all ranks add {size // MIB} MiB of float32 up"
        found: dict[str, Any] = {
            "checked_bytes": size * self.ranks,
            "wrong_bytes": total,
            "bytes_per_copy": size,
        }
        if self.rank == 0 and (step.first or total):
            verdict = "wrong-data" if total else "finished"
            self.say(FINISHES, "", "", direction, verdict=verdict, **found)
        once = here.seconds(reduce, 1)
        samples, times = self._repeats(f"slow/{size}", once)

        def sample() -> float:
            here.copy(data, mine)
            return here.seconds(reduce, times)

        # A forked rank copies each page that it touches for the first time.
        for _ in range(WARM_SAMPLES if times > 1 else 0):
            sample()
        row = [sample() for _ in range(samples)]
        here.copy(data, mine)
        taken = [gigabytes_per_second(size, each) for each in self._best(row, reduce, times)]
        if self.rank != 0:
            return
        # Bytes that a ring sends over each link, over the time: nccl-tests/doc/PERFORMANCE.md.
        factor = 2 * (self.ranks - 1) / self.ranks
        found |= {"verdict": "wrong-data" if total else "verified", "copies_per_sample": times}
        for quantity, by in ((ALGBW, 1.0), (BUSBW, factor)):
            self.figure(quantity, "", "", direction, Sampled(tuple(by * x for x in taken)), **found)

    def _best(self, row: "list[float]", call: Call, times: int) -> "list[float]":
        """Seconds of one call by sample: those taken while the GPU was held, where they are less.

        Else what queues the calls, torch above all, would be measured too. All ranks make the same
        calls, whatever they find.
        """
        if times < _OFTEN:
            return row
        every = [self.here.held(call, [call] * times, _HOLD_SECONDS) for _ in row]
        held = [seconds for seconds in every if seconds is not None]
        if len(held) < len(row) / 2:
            return row
        return min(row, held, key=lambda taken: Sampled(tuple(taken)).median)

    def _repeats(self, topic: str, seconds: float) -> "tuple[int, int]":
        """The number of samples and calls; the first try of rank 0 decides for all."""
        slow = float(self.share(topic, f"{seconds:.6f}")[0])
        if slow > _SLOW_SECONDS:
            return 3, 1
        return SAMPLES, 10 if slow < _SLOW_SECONDS / 40 else 2

    def _transfer(self, step: Step) -> None:
        here, sends = self.here, self.rank == step.src
        data, seed = self._data[: step.size_bytes // _NUMBER_BYTES], 1000 + 97 * step.src + step.dst
        if sends:
            here.fill(data, seed)
            move = self.group.exchange([(data, step.dst)], [])
        else:
            here.clear(data)
            move = self.group.exchange([], [(data, step.src)])
        move()
        here.wait()
        wrong = 0 if sends else here.wrong_bytes(data, (seed,))
        topic = f"slow/{step.src}/{step.dst}"
        once = here.seconds(move, 1)
        if sends:
            slow = float(self.store.get(topic))
        else:
            slow = once
            self.store.set(topic, f"{slow:.6f}")
        samples, times = (1, 1) if float(f"{slow:.6f}") > _SLOW_SECONDS else (SAMPLES, 8)

        def sample() -> float:
            if times > 1:
                move()  # both count from its end, so it does not matter who arrived first
            return here.seconds(move, times)

        for _ in range(WARM_SAMPLES if times > 1 else 0):
            sample()
        taken = self._best([sample() for _ in range(samples)], move, times)
        if sends:
            return
        speeds = Sampled(tuple(gigabytes_per_second(step.size_bytes, seconds) for seconds in taken))
        src, dst = self.devices[step.src].key, self.devices[step.dst].key
        found: dict[str, Any] = {
            "verdict": "wrong-data" if wrong else "verified",
            "checked_bytes": step.size_bytes,
            "wrong_bytes": wrong,
            "bytes_per_copy": step.size_bytes,
            "copies_per_sample": times,
        }
        direction = f"{src} sends, {dst} receives, nothing else running"
        self.figure(SEND_RECEIVE, src, dst, direction, speeds, **found)


SPEC = ProbeSpec(
    name="nccl",
    title="NCCL or RCCL itself",
    measures=(
        "With one process on each GPU and the environment of this shell: whether the communicator "
        "comes up, all-reduce GB/s, a checked send and receive for every ordered pair, and the "
        "library's own log of what it decided."
    ),
    method="nccl/4",
    minimum_gpus=2,
    memory_bytes_per_gpu=NEEDED_BYTES,
    start_seconds=3.0,
    seconds_per_gpu=0.25,
    seconds_per_pair=0.08,
    seconds_alone=1.0,
    level_factors={"quick": 1.0, "normal": 1.0, "full": 1.0},
    by_library=True,
    quantities=QUANTITIES,
)

Emit = Callable[[Message], None]


def run(request: WorkerRequest, emit: Emit) -> None:
    """Run all ranks; each rank also enters here. ProbeStopped if they do not reach the end."""
    run_crew(request, emit, SPEC, steps, NcclMember, debug_log=True, answer=_answer)


def _answer(trouble: Trouble, crew: Crew) -> MeasuredValue:
    """The failure as a measurement."""
    quantity, src, dst = FINISHES, "", ""
    if trouble.step.name == _TRANSFER:
        quantity = SEND_RECEIVE
        src, dst = crew.key_of(trouble.step.src), crew.key_of(trouble.step.dst)
    return MeasuredValue(
        name=quantity.key,
        src=src,
        dst=dst,
        method=SPEC.method,
        device_kind=crew.device_kind,
        engine=crew.library,
        direction=trouble.step.what,
        verdict=trouble.error,
        why=trouble.text,
    )
