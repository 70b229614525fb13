"""Peer to peer: granted access, arrival of bytes, bandwidth and latency.

Answers the second and third question of the ladder (`topology/explain/ladder.py`) and measures
every ordered pair. Copies run on a stream of the source (writes) or of the destination (reads),
and kernels on the multiprocessors of either, like nvbandwidth's
device_to_device_memcpy_{write,read}_{ce,sm}, with its repeats at the levels "normal" and "full":
512 MiB, 16 copies between two events, all queued while the stream is held.
"""

from ...devices.opened import Emit, open_devices
from ...protocol.messages import WorkerRequest
from ...protocol.sizing import GIB, MIB, choose_sizes
from ...protocol.spec import ProbeSpec, level_of
from ...protocol.tracking import Track
from .plan import PLANS
from .quantities import ALONE
from .report import PairReporter
from .walk import Walk

SPEC = ProbeSpec(
    name="p2p",
    title="GPU to GPU",
    measures=(
        "For every ordered pair of GPUs: does the driver grant access, does data that a kernel "
        "stores arrive intact, how fast copy engines and kernels write and read, one way and both "
        "ways, and latency. For each kind of link also by message size, and through host memory."
    ),
    method="p2p/3",
    minimum_gpus=2,
    memory_bytes_per_gpu=2 * GIB,
    start_seconds=1.5,
    seconds_per_gpu=0.3,
    seconds_per_pair=0.45,
    seconds_alone=1.2,
    level_factors={"quick": 0.09, "normal": 1.0, "full": 1.6},
    host_memory_bytes=64 * MIB,
    loads=("links",),
    needs_torch=False,
    quantities=ALONE,
)


def run(request: WorkerRequest, emit: Emit) -> None:
    """Measure the ordered pairs of the requested devices; ProbeStopped if it cannot."""
    plan = PLANS[level_of(request.params)]
    backend, opened = open_devices(request, SPEC, emit)
    sizes = choose_sizes(backend.kind, opened, request.params)
    reporter = PairReporter(backend, SPEC.method, emit)
    track = Track(emit)
    walk = Walk(backend, sizes, plan, reporter, track, request.params.get("kinds"))
    try:
        track.step(0, 1, f"filling {2 * sizes.buffer_bytes // MIB} MiB on each device")
        backend.allocate([d.index for d in opened], sizes.buffer_bytes)
        walk.measure_all(opened)
    finally:
        backend.release()
