"""Times one call like Triton's testing.do_bench, without Triton.

One call, then five between two events (flushes included) give an estimate, which decides how many
calls warm up and how many are timed. Every timed call has its own pair of events and starts with a
cold L2, because a buffer larger than any L2 (126 MB on B200) is zeroed before it, outside the pair.
Nothing waits in between, so the queue stays full and launching costs no time of the device.
"""

import contextlib
import time
from collections.abc import Callable
from typing import Any

from ...protocol.timing import Sampled

WARMUP_MS = 30.0
REP_MS = 200.0
"""Budgets for warming up and timing, in milliseconds instead of counts."""
FLUSH_BYTES = 256 << 20
_ESTIMATE_CALLS = 5
_MOST_CALLS = 5000
"""Limits the events, two for each call: very short calls must not fill the memory."""

Work = Callable[[], object]


class CallTimes(Sampled):
    """Times of single calls in milliseconds, in the order in which they ran."""

    @property
    def minimum(self) -> float:
        """The shortest call."""
        return min(self.samples)

    @property
    def maximum(self) -> float:
        """The longest call."""
        return max(self.samples)

    def quantile(self, fraction: float) -> float:
        """The quantile for a part of 0 to 1, interpolated between two samples."""
        ordered = sorted(self.samples)
        place = fraction * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def counts(estimate_ms: float, warmup_ms: float, rep_ms: float) -> "tuple[int, int]":
    """How many calls warm up and how many are timed, at least one each."""
    lasts = max(estimate_ms, 1e-3)
    return (
        min(_MOST_CALLS, max(1, int(warmup_ms / lasts))),
        min(_MOST_CALLS, max(1, int(rep_ms / lasts))),
    )


def flush_buffer(torch: Any, device: str) -> Any:
    """The `flush` argument for calls on this device; None on a CPU."""
    if device == "cpu":
        return None
    return torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device=device)


def median_ms(
    torch: Any,
    work: Work,
    *,
    warmup_ms: float = WARMUP_MS,
    rep_ms: float = REP_MS,
    flush: Any = None,
    device: str = "cuda",
) -> CallTimes:
    """Time `work`, which queues on the current stream of `device`; on "cpu" it runs at once.

    `flush`: the result of `flush_buffer`; without it the L2 stays warm. Report `.median`, in
    milliseconds.
    """
    if device == "cpu":
        return _on_cpu(work, warmup_ms, rep_ms)
    place = contextlib.nullcontext() if device == "cuda" else torch.cuda.device(device)
    with place:
        return _on_gpu(torch, work, warmup_ms, rep_ms, flush)


def _on_gpu(torch: Any, work: Work, warmup_ms: float, rep_ms: float, flush: Any) -> CallTimes:
    def event() -> Any:
        return torch.cuda.Event(enable_timing=True)

    work()
    torch.cuda.synchronize()
    before, after = event(), event()
    before.record()
    for _ in range(_ESTIMATE_CALLS):
        if flush is not None:
            flush.zero_()
        work()
    after.record()
    torch.cuda.synchronize()
    estimate_ms = float(before.elapsed_time(after)) / _ESTIMATE_CALLS
    warm_calls, calls = counts(estimate_ms, warmup_ms, rep_ms)
    pairs = [(event(), event()) for _ in range(calls)]
    for _ in range(warm_calls):
        work()
    for start, end in pairs:
        if flush is not None:
            flush.zero_()
        start.record()
        work()
        end.record()
    torch.cuda.synchronize()
    return CallTimes(tuple(float(start.elapsed_time(end)) for start, end in pairs))


def _on_cpu(work: Work, warmup_ms: float, rep_ms: float) -> CallTimes:
    def call_ms() -> float:
        start = time.perf_counter()
        work()
        return (time.perf_counter() - start) * 1000

    work()
    estimate_ms = sum(call_ms() for _ in range(_ESTIMATE_CALLS)) / _ESTIMATE_CALLS
    warm_calls, calls = counts(estimate_ms, warmup_ms, rep_ms)
    for _ in range(warm_calls):
        work()
    return CallTimes(tuple(call_ms() for _ in range(calls)))
