"""Remarks on tuning variables: without effect, fatal, or beyond what is modelled."""

from ..settings import INTEGER
from . import channels, threads
from .inputs import TuningInput
from .selection import Remark, algorithms, protocols, quoted
from .version import assumption

NEWER = {"NCCL_PAT_ENABLE": "2.23.4", "NCCL_LL128_C2C": "2.27.3"}
"""Variables that older versions do not read."""

NUMBERS = ("NCCL_NVLS_ENABLE", "NCCL_PAT_ENABLE", "NCCL_LL128_C2C", "NCCL_NET_OVERHEAD")


def ignored(comm: TuningInput) -> tuple[Remark, ...]:
    """(name, value, why) of tuning variables that have no effect as written."""
    settings = comm.settings
    found = [
        *algorithms(settings, comm.version).remarks,
        *protocols(settings, comm.version).remarks,
    ]
    found += threads.remarks(comm) + channels.remarks(comm)
    for name, since in NEWER.items():
        text = settings.text(name)
        if text is not None and not comm.version.at_least(since):
            found.append((name, text, f"NCCL {comm.number} does not read it; {since} does"))
    for name in NUMBERS:
        text = settings.text(name)
        if text and not INTEGER.match(text):
            found.append((name, text, "not a number: NCCL takes it for 0"))
    for name in ("NCCL_COLLNET_ENABLE", "NCCL_COLLNET_NODE_THRESHOLD"):
        text = settings.text(name)
        if text and settings.integer(name, 0) and not comm.collnet:
            found.append((name, text, "no CollNet plugin is known to be there"))
    text = settings.text("NCCL_NVLS_NCHANNELS")
    if text and not comm.uses_nvls:
        found.append(("NCCL_NVLS_NCHANNELS", text, "NVLS is not used"))
    return tuple(found)


def failure(comm: TuningInput) -> str | None:
    """Why NCCL refuses to start over a tuning variable, in one sentence."""
    for read in (protocols, algorithms):
        found = read(comm.settings, comm.version)
        if found.failure:
            return found.failure
    return None


def assumptions(comm: TuningInput) -> tuple[str, ...]:
    """Assumptions of the predicted choices, a sentence each."""
    found = [assumption(comm.library, comm.number)]
    for name in ("NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE"):
        text = comm.settings.text(name)
        if text and text.lower() != "none":
            found.append(f"{name}={quoted(text)}: a tuner plugin may choose otherwise")
    policy = comm.settings.integer("NCCL_CTA_POLICY", 0)
    if policy:
        found.append("NCCL_CTA_POLICY changes the choice for registered buffers alone")
    return tuple(sentence for sentence in found if sentence)
