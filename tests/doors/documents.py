"""Where the JSON documents of the commands state a fact: (subject, value, way to it)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

Found = Iterator[tuple[str, Any, tuple[Any, ...]]]
Find = Callable[[Any], Found]

BYTES_256MIB, BYTES_1GIB = 2**28, 2**30
_EFFECT = ("flag", "outcomes", 0, "effect")


def at(*way: Any) -> Find:
    """The value that stands there, where there is one."""

    def found(d: Any) -> Found:
        place = d
        for key in way:
            place = place.get(key) if isinstance(place, dict) else place[key]
            if place is None:
                return
        yield "", place, way

    return found


def one(*way: Any) -> Find:
    """The value that stands there, where it is the same for all devices."""

    def found(d: Any) -> Found:
        return (each for each in at(*way)(d) if ";" not in each[1])

    return found


def words(*way: Any) -> Find:
    """The words of a line, one for each GPU by address; the numbers of AMD's may differ."""

    def found(d: Any) -> Found:
        wiring = " ".join(d["fleet"]["facts"]["wiring"].values())
        amd = "AMD" in d["fleet"]["product"] or "XGMI" in wiring
        if amd and not any(address.startswith("topo:") for address in d["gpus"]):
            return
        gpus = [re.fullmatch(r"topo:[A-Z]+(\d+)", address) for address in sorted(d["gpus"])]
        for _, line, _ in at(*way)(d):
            for place, word in enumerate(line.split(" ")):
                named = gpus[place] if place < len(gpus) else None
                if word != "?":
                    yield named[1] if named else str(place), word, (*way, place)

    return found


def findings(field: str, key: str = "title") -> Find:
    """A field of each finding, by its title."""

    def found(d: Any) -> Found:
        for number, finding in enumerate(d["findings"]):
            if finding[field]:
                yield finding[key], finding[field], ("findings", number, field)

    return found


def evidence(d: Any) -> Found:
    """The value of each proof, by the title of its finding and its own name."""
    for number, finding in enumerate(d["findings"]):
        for proof, one in enumerate(finding["evidence"]):
            way = ("findings", number, "evidence", proof, "value")
            yield f"{finding['title']}: {one['what']}", one["value"], way


def fixes(d: Any) -> Found:
    """The commands of each finding, one after the other."""
    for number, finding in enumerate(d["findings"]):
        for step, fix in enumerate(finding["fix"]):
            if fix["command"]:
                yield finding["title"], fix["command"], ("findings", number, "fix", step, "command")


def severities(d: Any) -> Found:
    """How many findings there are of each severity."""
    first: dict[str, int] = {}
    for number, finding in enumerate(d["findings"]):
        first.setdefault(finding["severity"], number)
    counts = Counter(finding["severity"] for finding in d["findings"])
    for severity, number in first.items():
        yield severity, counts[severity], ("findings", number, "severity")


def pairs(field: str) -> Find:
    """A field of each pair of ranks."""

    def found(d: Any) -> Found:
        for number, pair in enumerate(d["pairs"]):
            if pair[field] is not None:
                yield f"{pair['src']}>{pair['dst']}", pair[field], ("pairs", number, field)

    return found


def reasons(d: Any) -> Found:
    """Why a pair uses shared memory: the first step that decides."""
    for number, pair in enumerate(d["pairs"]):
        for step, one in enumerate(pair["steps"]):
            if one["decides"] and pair["transport"] == "SHM":
                way = ("pairs", number, "steps", step, "because")
                yield f"{pair['src']}>{pair['dst']}", one["because"], way
                break


def effect(d: Any) -> Any:
    """What the first value of the flag does."""
    outcomes = d["flag"]["outcomes"]
    return (outcomes and outcomes[0]["effect"]) or {}


def transports(d: Any) -> Found:
    """The transport of every pair with the flag, by `flags NAME --json`."""
    for number, group in enumerate(effect(d).get("pairs", ())):
        for src, dst in group["pairs"]:
            way = (*_EFFECT, "pairs", number, "after", "transport")
            yield f"{src}>{dst}", group["after"]["transport"], way


def effect_at(*way: Any) -> Find:
    """A value of what the flag does."""

    def found(d: Any) -> Found:
        if effect(d):
            yield from at(*_EFFECT, *way)(d)

    return found


def time(side: str, size: int) -> Find:
    """The time of an all-reduce without ("before_us") or with the flag."""

    def found(d: Any) -> Found:
        for number, one in enumerate(effect(d).get("times", ())):
            if one["bytes"] == size and one[side]:
                yield "", one[side], (*_EFFECT, "times", number, side)

    return found


def choice(field: str, size: int) -> Find:
    """A field of what the library chooses for an all-reduce of this size."""

    def found(d: Any) -> Found:
        for number, one in enumerate(d["choices"]):
            if (one["collective"], one["bytes"]) == ("AllReduce", size):
                yield "", one[field], ("choices", number, field)

    return found


def graphs(field: str) -> Find:
    """A field of ring and tree."""

    def found(d: Any) -> Found:
        for name, graph in (d["graphs"] or {}).items():
            if graph and name in ("ring", "tree"):
                yield name, graph[field], ("graphs", name, field)

    return found


def graph_words(side: str) -> Find:
    """Ring and tree in words, without ("before") or with the flag."""

    def found(d: Any) -> Found:
        for number, graph in enumerate(effect(d).get("graphs", ())):
            if graph["graph"] in ("ring", "tree") and " x " in (graph[side] or ""):
                yield graph["graph"], graph[side], (*_EFFECT, "graphs", number, side)

    return found


def nics(d: Any) -> Found:
    """The NIC of each rank."""
    for number, view in enumerate(d["views"]):
        for step, one in enumerate(view["steps"].get("local_nets", ())):
            rank = one["question"].removeprefix("which NIC serves rank ").removesuffix("?")
            way = ("views", number, "steps", "local_nets", step, "answer")
            if one["answer"] != "none":
                yield rank, one["answer"].partition(",")[0], way


def relations(d: Any) -> Found:
    """The code of every pair of devices."""
    labels = [device["label"] for device in d["matrix"]["devices"]]
    for i, row in enumerate(d["matrix"]["cells"]):
        for j, cell in enumerate(row):
            if i != j and cell != "?":
                yield f"{labels[i]}>{labels[j]}", cell, ("matrix", "cells", i, j)


def devices(field: str) -> Find:
    """A field of each GPU of the matrix."""

    def found(d: Any) -> Found:
        for number, device in enumerate(d["matrix"]["devices"]):
            if device["kind"] == "gpu" and device[field] is not None:
                way = ("matrix", "devices", number, field)
                yield device["label"].removeprefix("GPU"), device[field], way

    return found


def edges(field: str, kind: str) -> Find:
    """The sum of a field over the edges of this kind between a GPU and what is none."""

    def found(d: Any) -> Found:
        labels = {device["address"]: device["label"] for device in d["matrix"]["devices"]}
        gpus = {address for address, label in labels.items() if label.startswith("GPU")}
        sums: dict[str, float] = {}
        ways: dict[str, tuple[Any, ...]] = {}
        for number, edge in enumerate(d["edges"]):
            ends = {edge["a"], edge["b"]}
            if edge["kind"] == kind and len(ends & gpus) == 1 and edge[field]:
                (gpu,) = ends & gpus
                sums[gpu] = sums.get(gpu, 0) + edge[field]
                ways.setdefault(gpu, ("edges", number, field))
        for gpu, total in sums.items():
            yield labels[gpu].removeprefix("GPU"), total, ways[gpu]

    return found


def figures(quantity: str, *way: str) -> Find:
    """A field of each figure of a quantity, by the places of its two GPUs."""

    def found(d: Any) -> Found:
        places = {address: number for number, address in enumerate(d["gpus"])}
        for number, one in enumerate(d["measurements"]):
            if one["quantity"] == quantity:
                pair = f"{places[one['src']]}>{places[one['dst']]}"
                for _, value, _ in at(*way)(one):
                    yield pair, value, ("measurements", number, *way)

    return found


def figure_verdicts(quantity: str) -> Find:
    """How many figures of a quantity have each verdict."""

    def found(d: Any) -> Found:
        verdicts = [
            (number, one["expected"]["verdict"])
            for number, one in enumerate(d["measurements"])
            if one["quantity"] == quantity
        ]
        counts = Counter(verdict for _, verdict in verdicts)
        for verdict, number in {verdict: number for number, verdict in verdicts}.items():
            yield verdict, counts[verdict], ("measurements", number, "expected", "verdict")

    return found


def references(quantity: str) -> Find:
    """What the judged figures of a quantity are compared with."""

    def found(d: Any) -> Found:
        for number, one in enumerate(d["measurements"]):
            if one["quantity"] == quantity and one["expected"]["verdict"] != "no reference":
                way = ("measurements", number, "expected", "healthy")
                yield "", one["expected"]["healthy"], way

    return found


def jobs(field: str) -> Find:
    """A field of each job, by its program."""

    def found(d: Any) -> Found:
        for number, job in enumerate(d["jobs"]):
            yield job["program"], job[field], ("jobs", number, field)

    return found


def job_ranks(field: str) -> Find:
    """A field of each rank, by its process."""

    def found(d: Any) -> Found:
        for number, job in enumerate(d["jobs"]):
            for place, rank in enumerate(job["ranks"]):
                if rank[field] is not None:
                    yield str(rank["pid"]), rank[field], ("jobs", number, "ranks", place, field)

    return found


def communicators(field: str) -> Find:
    """A field of each communicator of a log."""

    def found(d: Any) -> Found:
        for number, one in enumerate(d["communicators"]):
            if one[field] is not None:
                yield one["ident"], one[field], ("communicators", number, field)

    return found


def log_ranks(field: str) -> Find:
    """A field of each rank of a log, by its communicator."""

    def found(d: Any) -> Found:
        for number, one in enumerate(d["communicators"]):
            for place, rank in enumerate(one["ranks"]):
                if rank[field] is not None:
                    way = ("communicators", number, "ranks", place, field)
                    yield f"{one['ident']}: {rank['rank']}", rank[field], way

    return found


def variables(d: Any) -> Found:
    """The value of each variable of a log."""
    for number, variable in enumerate(d["environment"]):
        yield variable["name"], variable["value"], ("environment", number, "value")
