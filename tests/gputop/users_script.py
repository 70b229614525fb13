"""What a user writes: which pairs may use P2P, and the NIC of each GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import gputop


def slow_pairs(node: gputop.NodeAnswers, least_gbs: float) -> list[tuple[int, int, float]]:
    found: list[tuple[int, int, float]] = []
    for src in range(len(node.gpus)):
        for dst in range(len(node.gpus)):
            if src == dst:
                continue
            pair = node.p2p(src, dst)
            if pair.expected_gbs is not None and pair.expected_gbs < least_gbs:
                found.append((src, dst, pair.expected_gbs))
    return found


def main(path: Path) -> int:
    try:
        node = gputop.load(path)
    except gputop.GputopError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    nics: dict[str, str | None] = {gpu.address: node.nic_of(gpu.address).nic for gpu in node.gpus}
    choices = node.explain("AllGather", 1 << 20, gpus=[0, 1], env={"NCCL_ALGO": "Ring"}).choices
    print(nics, slow_pairs(node, 300.0), [choice.time_us for choice in choices])
    return node.check().exit_code


sys.exit(main(Path(sys.argv[1])))
