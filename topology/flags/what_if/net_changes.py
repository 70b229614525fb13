"""How the pairs of a GPU and a NIC change between two predictions."""

from __future__ import annotations

from collections import Counter

from ...nccl.prediction import NetDecision, Prediction


def net_changes(before: Prediction, after: Prediction) -> tuple[tuple[str, int], ...]:
    """Say what changes in a few words, and for how many pairs, most pairs first.

    A GPU that takes part in only one of the predictions does not count.
    """
    if before.views is after.views:
        return ()
    old, new = _decided(before), _decided(after)
    both = {rank for rank, *_ in old} & {rank for rank, *_ in new}
    counted: Counter[str] = Counter()
    for key in old.keys() | new.keys():
        if old and new and key[0] not in both:
            continue
        counted[_difference(old.get(key), new.get(key))] += 1
    del counted[""]
    return tuple(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def nets_in_words(changes: tuple[tuple[str, int], ...]) -> list[str]:
    """Write clauses: "64 GPU-NIC pairs: without GPUDirect RDMA"."""
    return [f"{count} GPU-NIC pair{'s' * (count != 1)}: {what}" for what, count in changes]


def _decided(prediction: Prediction) -> dict[tuple[int, int, str], NetDecision]:
    """Index by rank and NIC; a number alone confuses a socket with the adapter that it replaces."""
    return {(net.rank, net.net, net.name): net for view in prediction.views for net in view.nets}


def _difference(old: NetDecision | None, new: NetDecision | None) -> str:
    """Word the most important difference; "" where there is none."""
    if old is None or new is None:
        return "" if old is new else "the NIC is not used" if new is None else "the NIC is used"
    words = []
    if old.to[2] != new.to[2]:
        words.append(f"{old.to[2]} -> {new.to[2]}")
    was, now = _gdr(old), _gdr(new)
    if was != now:
        words.append(f"GPUDirect RDMA {was} -> {now}")
    elif (old.pxn_rank < 0) != (new.pxn_rank < 0):
        words.append("through another GPU" if new.pxn_rank >= 0 else "no longer by another GPU")
    if not words and (old.to, old.back, old.pxn_rank) != (new.to, new.back, new.pxn_rank):
        words.append("another way")
    if not words and (old.gdr_send, old.gdr_recv) != (new.gdr_send, new.gdr_recv):
        words.append("GPUDirect RDMA in another way")
    return ", ".join(words)


def _gdr(net: NetDecision) -> str:
    """Word the directions that go straight between GPU and NIC."""
    send, receive = net.gdr_send != "Disabled", net.gdr_recv != "Disabled"
    if send == receive:
        return "on" if send else "off"
    return "for sends" if send else "for receives"
