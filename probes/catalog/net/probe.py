"""What the network between nodes carries: NCCL or RCCL over rails, one at a time and all together.

Each node runs one worker, with a rank on each GPU. The nodes meet in files or in a launcher's store
(`notices`), see in `meeting` that all are there, and measure the tasks of `plan`, one at a time.
Every node reports every figure, so that any that lives can write the result. Nothing but this probe
uses the network, and no suite holds it.
"""

from ...crew.probe import run_crew
from ...protocol.messages import WorkerRequest
from ...protocol.replying import Emit
from ...protocol.spec import ProbeSpec
from .plan import steps
from .quantities import QUANTITIES
from .rank import NEEDED_BYTES, NetMember

SPEC = ProbeSpec(
    name="net",
    title="Network between nodes",
    measures=(
        "With one process on each GPU of every node: send and receive each way, all-reduce and "
        "all-to-all by NCCL or RCCL, rail by rail and over all rails, GB/s and latency, beside the "
        "transport that the library's log names."
    ),
    method="net/1",
    minimum_gpus=1,
    memory_bytes_per_gpu=NEEDED_BYTES,
    start_seconds=5.0,
    seconds_per_gpu=3.0,
    seconds_per_pair=0.0,
    seconds_alone=5.0,
    level_factors={"quick": 1.0, "normal": 1.0, "full": 1.0},
    by_library=True,
    quantities=QUANTITIES,
)


def run(request: WorkerRequest, emit: Emit) -> None:
    """Run this node's ranks; ProbeStopped if they do not reach the end."""
    run_crew(request, emit, SPEC, steps, NetMember, debug_log=True)
