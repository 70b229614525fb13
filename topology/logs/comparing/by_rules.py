"""What version and variables alone decide, for a log of whose node nothing is known."""

from collections.abc import Iterator, Mapping

from ...model.gathered import gathered_by
from ...nccl.decide.labels import p2p_label, shm_label
from ...nccl.settings import Settings
from ...nccl.versions import UnknownVersionError, Version, version_for
from ..report.communicator import Communicator
from ..report.places import places
from .agreement import Agreement, PairAgreement
from .compare import share_one

REST = "paths, rings, trees, channels and tuning: {why}; --from names a node"
BEHIND = (
    "how a pair shares memory hangs on the variables of both ranks, and on the driver: cuMem takes "
    "one for CUDA 12.0 or later"
)


def by_rules(
    comm: Communicator, values: Mapping[str, str], library: str | None, why: str
) -> Agreement:
    """Compare how pairs share memory; `why` no more can be compared.

    That a pair uses P2P or shared memory at all is taken from the log.
    """
    try:
        version, _ = version_for(library or "")
    except UnknownVersionError:
        return Agreement(comparable=False, why_not=why)
    pairs = tuple(_pairs(comm, version, Settings(values)))
    if not pairs:
        return Agreement(comparable=False, why_not=why)
    return Agreement(
        library=library or "",
        pairs=pairs,
        skipped=(REST.format(why=why),),
        reasons=() if all(pair.agrees for pair in pairs) else (BEHIND,),
    )


def _pairs(comm: Communicator, version: Version, settings: Settings) -> Iterator[PairAgreement]:
    seen = places(comm)
    by_pair = gathered_by(comm.transports, lambda transport: (transport.src, transport.dst))
    direct = settings.integer("NCCL_P2P_DIRECT_DISABLE", 0) == 0
    for (src, dst), transports in by_pair.items():
        logged = tuple(dict.fromkeys(transport.label for transport in transports))
        one = direct and share_one(comm, src, dst)
        expected = [_expected(label, version, settings, one_process=one) for label in logged]
        wanted = tuple(dict.fromkeys(label for label in expected if label is not None))
        if None not in expected and src in seen and dst in seen:
            yield PairAgreement(
                src=src,
                dst=dst,
                src_bus_id=seen[src].address,
                dst_bus_id=seen[dst].address,
                logged=logged,
                predicted=wanted,
                agrees={*logged} == {*wanted},
                line=min(transport.line for transport in transports),
            )


def _expected(label: str, version: Version, settings: Settings, *, one_process: bool) -> str | None:
    """What the kind of a label is called; None of one that a topology or a plugin decides."""
    if label.startswith("SHM"):
        return shm_label(version, settings)
    if not label.startswith("P2P/") or label.startswith(("P2P/indirect", "P2P/MNNVL")):
        return None
    return label if one_process else p2p_label(version, settings, None, "/read" in label)
