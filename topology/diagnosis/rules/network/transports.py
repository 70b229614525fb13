"""GPUs of one host that talk over the network."""

from collections.abc import Iterable, Sequence

from ....model import quantities
from ....model.finding import Finding
from ....model.severity import BY_DESIGN, SLOW
from ....model.snapshot import Measurement
from ....nccl.prediction import NET, PairDecision
from ...case import Case
from ...rule import Found, Proof, Rule, faulty
from ...shared.near import some


def _check(case: Case) -> Found:
    logged = case.figures(quantities.TRANSPORT)
    if case.prediction is None and not logged:
        return None
    seen = [figure for figure in logged if (figure.verdict or "").startswith("NET")][:8]
    pairs = _predicted(case)
    ends = {end for figure in seen for end in (figure.src, figure.dst) if end}
    ends |= {end for pair in pairs for end in (pair.src_bus_id, pair.dst_bus_id) if end}
    evidence = faulty([*_as_logged(case, seen), *_as_predicted(case, pairs)])
    # With an RDMA device NCCL may prefer it to SHM (graph/paths.cc:ncclTopoCheckNet).
    chosen = pairs and not seen and not any("Socket" in pair.label for pair in pairs)
    finding = _chosen if chosen else _forced
    return finding(case, sorted(ends), evidence)


def _predicted(case: Case) -> list[PairDecision]:
    """The examined pairs of one host that are predicted to use the network."""
    prediction = case.prediction
    if prediction is None or prediction.hosts != 1:
        return []
    counted = {gpu.address for gpu in case.gpus}
    return [
        pair
        for pair in prediction.pairs
        if pair.transport == NET and {pair.src_bus_id, pair.dst_bus_id} <= counted
    ]


def _as_logged(case: Case, seen: Iterable[Measurement]) -> Iterable[Proof]:
    for figure in seen:
        yield (
            f"transport from {case.name(figure.src or '')} to {case.name(figure.dst or '')}",
            figure.verdict or "",
            "NCCL's log, probe nccl",
        )


def _as_predicted(case: Case, pairs: Sequence[PairDecision]) -> Iterable[Proof]:
    if not pairs or case.prediction is None:
        return
    reason = next((step.because for step in pairs[0].steps if step.refuses), "")
    yield (
        f"pairs that {case.words.library} sends over the network",
        f"{len(pairs)} of {len(case.prediction.pairs)}, as {pairs[0].label}"
        + (f": {reason}" if reason else ""),
        "prediction",
    )


def _chosen(case: Case, devices: list[str], evidence: list[Proof]) -> Finding:
    return SAME_HOST.finding(
        BY_DESIGN,
        f"{case.words.library} sends between {some(case, devices)} over the NICs of this machine",
        devices=devices,
        evidence=evidence,
        impact="It takes a NIC for faster than shared memory between these GPUs.",
        fix=["Measure it against shared memory. $ export NCCL_NET_DISABLE_INTRA=1"],
    )


def _forced(case: Case, devices: list[str], evidence: list[Proof]) -> Finding:
    return SAME_HOST.finding(
        SLOW,
        f"{some(case, devices)} are in one machine and talk over the network",
        devices=devices,
        evidence=evidence,
        impact="Each such hop runs at the rate of a NIC, or of TCP sockets inside the "
        "machine: 4 GB/s busbw was measured on four H200 so, and 353 with P2P.",
        fix=[
            (
                "Ranks in different containers need one /dev/shm and one hostname: for Docker. "
                "$ --ipc=host --uts=host"
            ),
            f"See which question {case.words.library} answers with no. $ gputop explain",
        ],
    )


SAME_HOST = Rule(
    id="same-host-net",
    title="GPUs of one host with the network between them",
    evidence="{library}'s transports as predicted, or as its log tells them",
    disproof="`via P2P` or `via SHM` in the lines of NCCL_DEBUG=INFO",
    sources=("NVIDIA/nccl#324", "NVIDIA/nccl#248", "NVIDIA/nccl#797", "NCCL transport/shm.cc"),
    check=_check,
    implied_by=("flag-costs", "nvlink-down", "nvlink-missing", "xgmi-link-down"),
)

RULES = (SAME_HOST,)
