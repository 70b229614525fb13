"""What the doors state of the library's decisions: pairs, graphs, times, NICs and a what-if."""

from __future__ import annotations

import re

from gputop.topology.model.severity import FigureVerdict

from . import documents as json
from .finding_facts import ALL_REDUCE, HERE, figure, spaced
from .readings import Fact, document, flow, matrix, text

PAIR = r"^PAIR\s+(?:GPU(?=\d+ ))?(?P<key>\S+) → (?:GPU(?=\d+\b))?(?P<to>\S+)"
"""The heading of what is said of a pair."""
DIRECT = PAIR + r"(?! .*(?:P2P through GPU|NO P2P))"
"""The same for a pair whose bytes take its own link: else the answer is about another way."""
_RANKS = r"^rank(?: +\d+)+ *$"
_EXPLAINED = matrix(
    _RANKS, r" *(?P<key>\d+) +", r"(?P<value>\.|[A-Z0-9]+)(?: (?!P2P|SHM|NET)[A-Z0-9]{3,4}\b)? *"
)
_PATHS = matrix(
    _RANKS,
    r" *(?P<key>\d+) +",
    r"(?:\.|[A-Z0-9]+(?: (?P<value>(?!P2P|SHM|NET)[A-Z0-9]{3,4}\b))?) *",
)
_SHOWN = matrix(
    r"^ what [NR]CCL will use.*\n↓ to →.*$",
    r"[› ]GPU(?P<key>\d+)\S*",
    r"\s+\[?(?:(?P<value>·|[A-Z0-9]+|relay)|[–?])\]?",
    label=r"(?<=GPU)\d+",
)
FIGURE_SIGNS = {mark.sign: mark.value for mark in FigureVerdict}
_REFERENCE = (
    r"(?:should a copy reach, one way\? about |was it, one way\?[^•]*?healthy is about )"
    r"(?P<value>[\d.]+) GB/s"
)
GRAPH = r"^(?P<key>Ring|Tree): "


def _microseconds(value: str) -> str:
    number, _, unit = value.partition(" ")
    factor = {"us": 1, "ms": 1e3, "s": 1e6, "": 1}[unit]
    return f"{float(number) * factor:.3g}"


def _transport(value: str) -> str:
    return "P2P" if value == "relay" else value


def _channels(value: str) -> str:
    return re.split(r"\s", value)[0]


def _speed(value: str) -> str:
    """Of "8 x 40 NVL" or 40.0 the 40."""
    words = re.findall(r"[\d.]+", value)
    return f"{float(words[-1]):g}"


def _algorithm(value: str) -> str:
    return value.upper().replace(" ", "_")


LIBRARY_FACTS = (
    Fact(
        "GPUs that the library uses",
        {
            "explain": text(r"\A[NR]CCL [\d.]+, (?P<value>\d+) GPUs?"),
            "flags": text(r"^This node without it: (?P<value>\d+) GPUs?,"),
            "flags --json": document(json.effect_at("ranks", 0)),
            "flags screen": text(r"^This node without it: (?P<value>\d+) GPUs?,"),
        },
        ("3", "4"),
    ),
    Fact(
        "all-reduce of 1 GiB, predicted",
        {
            "explain": flow(
                r"^All-reduce 1 GiB: (?:healthy [\d.]+ → here )?"
                r"(?P<value>[\d.]+)(?: to [\d.]+)? GB/s"
            ),
            "node screen": text(HERE.format(ALL_REDUCE)),
            # Of a range, which most estimates are, the lower end.
            "flags": text(r"^  not set  ~?(?P<value>[\d.]+)(?: to [\d.]+)? GB/s"),
            "flags screen": text(r"^• not set  .*?(?P<value>[\d.]+)(?: to [\d.]+)? GB/s"),
        },
        ("1", "2"),
        figure,
    ),
    Fact(
        "all-reduce of 1 GiB with the flag",
        {
            "flags": text(r"^  1  +~? ?(?:[\d.]+ to )?(?P<value>[\d.]+)(?: GB/s)?$"),
            "flags screen": text(r"^  1  .*?(?:[\d.]+ to )?(?P<value>[\d.]+) GB/s"),
            "pairs what-if screen": text(
                r"WHAT IF.*all-reduce 1 GiB: (?:(?:[\d.]+|not known) → )?"
                r"(?:[\d.]+ to )?(?P<value>[\d.]+) GB/s"
            ),
        },
        ("1", "2"),
        figure,
    ),
    Fact(
        "all-reduce of 256 MiB, time",
        {
            "explain": text(r"^ +256 MiB .* (?P<value>[\d.]+ [mu]s) "),
            "explain --json": document(json.choice("time_us", json.BYTES_256MIB)),
            "flags": text(r"^  not set  .*?(?P<value>[\d.]+ [mu]s)"),
            "flags --json": document(json.time("before_us", json.BYTES_256MIB)),
            "flags screen": text(r"^• not set  .*?(?P<value>[\d.]+ [mu]s)"),
        },
        ("1 us", "2 us", "1", "2"),
        _microseconds,
    ),
    Fact(
        "all-reduce of 256 MiB, time with the flag",
        {
            "explain what-if": text(r"^ +256 MiB .* channels \S+ +(?P<value>[\d.]+ [mu]s) "),
            "explain what-if --json": document(json.choice("time_us", json.BYTES_256MIB)),
            "flags --json": document(json.time("after_us", json.BYTES_256MIB)),
            "flags screen": text(r"^  1  .*? (?P<value>[\d.]+ [mu]s)"),
        },
        ("1 us", "2 us", "1", "2"),
        _microseconds,
    ),
    Fact(
        "algorithm of an all-reduce of 1 GiB",
        {
            "explain": text(r"^ +1 GiB  (?P<value>[A-Z][\w ]*?) (?:Simple|LL128|LL) "),
            "explain --json": document(json.choice("algorithm", json.BYTES_1GIB)),
            "node screen": text(r" · by (?P<value>[A-Z][\w ]*?) (?:Simple|LL128|LL)\b"),
            "flags screen": text(
                r"^• not set  .*?GB/s  +(?P<value>[A-Z][\w ]*?) (?:Simple|LL128|LL)\b"
            ),
        },
        ("RING", "TREE", "Ring", "Tree"),
        _algorithm,
    ),
    Fact(
        "transport of a pair",
        {
            "explain": _EXPLAINED,
            "explain --json": document(json.pairs("transport")),
            "pairs screen": _SHOWN,
            "pair steps": text(r"CCL [\d.]+ will use (?P<value>P2P|SHM|NET)\b", within=PAIR),
            "pair why": flow(r"CCL [\d.]+ will use (?P<value>P2P|SHM|NET)\b", within=PAIR),
            "pair answer": text(r"^ Uses +(?P<value>P2P|SHM|NET)\b", within=PAIR),
        },
        ("P2P", "SHM"),
        _transport,
    ),
    Fact(
        "kind of transport of a pair",
        {
            "explain --json": document(json.pairs("label")),
            "pair steps": text(r"CCL [\d.]+ will use (?P<value>\S+?),? ", within=PAIR),
            "pair why": flow(r"CCL [\d.]+ will use (?P<value>\S+?),? ", within=PAIR),
            "pair answer": text(r"^ Uses +(?P<value>[A-Z][^\s,]+)", within=PAIR),
        },
        ("P2P/IPC", "SHM/direct"),
    ),
    Fact(
        "path of a pair",
        {
            "explain": _PATHS,
            "explain --json": document(json.pairs("path")),
            "pair steps": text(r"CCL [\d.]+ will use .*path type (?P<value>[A-Z]+)", within=PAIR),
            "pair why": flow(r"CCL [\d.]+ will use \S+ \(path type (?P<value>[A-Z]+)", within=PAIR),
            "pair answer": text(r"^ Uses .*path (?P<value>[A-Z]+)", within=PAIR),
        },
        ("NVL", "SYS"),
    ),
    Fact(
        "why a pair has no P2P",
        {
            "explain --json": document(json.reasons),
            "pair answer": text(r"NO P2P: shared.*\n Because  (?P<value>.+)$", within=PAIR),
            "pair steps": text(r"will use SHM[^▸]*▸ [NR]CCL: .*\n  (?P<value>.+?) · ", within=PAIR),
        },
        ("so", "thus"),
        spaced,
    ),
    Fact(
        "rate of the link of a pair",
        {
            "pair answer": text(r"^ Speed +link (?P<value>[\d.]+) GB/s payload", within=DIRECT),
            "pair steps": text(
                r"How fast is it\? .*?(?P<value>[\d.]+) GB/s payload one way", within=PAIR
            ),
            "pair why": flow(
                r"How fast is it\? [^,]*, (?P<value>[\d.]+) GB/s payload one way", within=PAIR
            ),
        },
        ("1", "2"),
        figure,
    ),
    Fact(
        "copy of a pair, healthy",
        {
            "pair answer": text(
                r"· copy (?:healthy )?(?P<value>[\d.]+)(?= →| GB/s \((?:typical|data))", within=PAIR
            ),
            "pair steps": text(
                _REFERENCE,
                within=PAIR,
            ),
            "pair why": flow(
                _REFERENCE,
                within=PAIR,
            ),
        },
        ("1", "2"),
        figure,
    ),
    Fact(
        "copy of a pair, here",
        {
            "pair answer": text(r"copy healthy [\d.]+ → here (?P<value>[\d.]+)", within=PAIR),
            "pair steps": text(r"; (?P<value>[\d.]+) GB/s with what is there", within=PAIR),
            "pair why": flow(r"; (?P<value>[\d.]+) GB/s with what is there", within=PAIR),
            "check -v": flow(
                r"copy GPU(?P<key>\d+) to GPU(?P<to>\d+): healthy [\d.]+ → here (?P<value>[\d.]+)"
            ),
        },
        ("1", "2"),
        figure,
    ),
    Fact(
        "whether the driver grants a pair P2P",
        {
            "pair answer": text(r"^ path .* driver (?P<value>\S)", within=PAIR),
            "pair steps": text(r"^2 driver +(?P<value>\S)", within=PAIR),
        },
        ("✗", "?"),
    ),
    Fact(
        "copy of a pair, measured",
        {
            "pairs screen": matrix(
                r"^ GB/s, the row writes;.*\n↓ to →.*$",
                r"[› ]GPU(?P<key>\d+)\S*",
                r"\s+\[?(?:(?P<value>·|[\d.]+)(?: [✓▼▲])?|[–?])\]?",
                label=r"(?<=GPU)\d+",
            ),
            "pair answer": text(r"measured (?P<value>[\d.]+) ", within=PAIR),
            "pair steps": text(r"How fast was it, one way\? (?P<value>[\d.]+) GB/s", within=PAIR),
            "pair why": flow(r"How fast was it, one way\? (?P<value>[\d.]+) GB/s", within=PAIR),
        },
        ("1", "2"),
        figure,
    ),
    Fact(
        "verdict of a measured copy",
        {
            "pairs screen": matrix(
                r"^ GB/s, the row writes;.*\n↓ to →.*$",
                r"[› ]GPU(?P<key>\d+)\S*",
                r"\s+\[?(?:·|[\d.]+(?: (?P<value>[✓▼▲]))?|[–?])\]?",
                label=r"(?<=GPU)\d+",
            ),
            "pair answer": text(r"measured [\d.]+ (?P<value>[✓▼▲]) [a-z]", within=PAIR),
            "pair answer: word": text(
                r"measured [\d.]+ \S (?P<value>healthy|low|high)", within=PAIR
            ),
            "pair steps": text(
                r"How fast was it, one way\?.*\n.*\): (?P<value>healthy|low|high)\b", within=PAIR
            ),
        },
        ("healthy", "low", "✓", "▼"),
        lambda value: FIGURE_SIGNS.get(value, value),
    ),
    Fact(
        "transport of a pair with the flag",
        {
            "explain what-if": _EXPLAINED,
            "explain what-if --json": document(json.pairs("transport")),
            "flags --json": document(json.transports),
            "pairs what-if screen": _SHOWN,
        },
        ("P2P", "SHM"),
        _transport,
    ),
    Fact(
        "pairs with P2P",
        {
            "flags screen": text(r"^• not set  (?P<value>\d+) of \d+"),
            "pairs what-if screen": text(r"P2P for \d+ of \d+ pairs \((?P<value>\d+) today\)"),
        },
        ("3", "4"),
    ),
    Fact(
        "pairs with P2P with the flag",
        {
            "flags screen": text(r"^  1  +(?P<value>\d+) of \d+"),
            "pairs what-if screen": text(r"P2P for (?P<value>\d+) of \d+ pairs \("),
        },
        ("3", "4"),
    ),
    Fact(
        "nodes that the library counts with the flag",
        {
            "explain what-if": text(r"^[NR]CCL [\d.]+, .* on (?P<value>\d+) nodes by its count"),
            "explain what-if --json": document(json.at("nodes")),
            "flags --json": document(json.effect_at("nodes", 1)),
            "flags": flow(r"counts (?P<value>\d+) nodes instead"),
            "pairs what-if screen": text(r"counts (?P<value>\d+) nodes instead"),
        },
        ("3", "4"),
    ),
    Fact(
        "channels of a graph",
        {
            "explain": text(GRAPH + r"(?P<value>\d+) × "),
            "explain --json": document(json.graphs("channels")),
            "flags": text(r"[Ss]earch gives it (?P<value>\d+) x (?=[\d.]+)", about="ring"),
            "flags --json": document(json.graph_words("before")),
            "flags screen": text(
                r"^• not set  .*?\s(?P<value>\d+) x [\d.]+ [A-Z]{3}", about="ring"
            ),
        },
        ("3", "5", "3 x 1", "5 x 1"),
        _channels,
    ),
    Fact(
        "speed of a graph's channel",
        {
            "explain": text(GRAPH + r"\d+ × (?P<value>[\d.]+) GB/s"),
            "explain --json": document(json.graphs("bw_intra")),
            "flags": text(r"[Ss]earch gives it \d+ x (?P<value>[\d.]+)", about="ring"),
            "flags screen": text(
                r"^• not set  .*?\s\d+ x (?P<value>[\d.]+) [A-Z]{3}", about="ring"
            ),
        },
        ("3", "5"),
        _speed,
    ),
    Fact(
        "path of a graph",
        {
            "explain": text(GRAPH + r"\d+ × [\d.]+ GB/s (?P<value>[A-Z]+)"),
            "explain --json": document(json.graphs("type_intra")),
            "flags": text(r"[Ss]earch gives it \d+ x [\d.]+ (?P<value>[A-Z]+)", about="ring"),
            "flags screen": text(
                r"^• not set  .*?\s\d+ x [\d.]+ (?P<value>[A-Z]{3,4})\b", about="ring"
            ),
        },
        ("LOC", "DIS"),
    ),
    Fact(
        "channels of a graph with the flag",
        {
            "explain what-if": text(GRAPH + r"(?P<value>\d+) × "),
            "explain what-if --json": document(json.graphs("channels")),
            "flags --json": document(json.graph_words("after")),
            "flags screen": text(r"^  1  .*?\s(?P<value>\d+) x [\d.]+ [A-Z]{3}", about="ring"),
        },
        ("3", "5", "3 x 1", "5 x 1"),
        _channels,
    ),
    Fact(
        "channels for collectives",
        {
            "explain": text(r"^Channels for collectives: (?P<value>\d+)"),
            "explain --json": document(json.at("coll_channels")),
            "flags": flow(r"will say (?P<value>\d+) coll channels"),
            "flags screen": flow(r"will say (?P<value>\d+) coll channels"),
            "flags --json": document(json.effect_at("channels", 0)),
        },
        ("3", "5"),
    ),
    Fact(
        "NIC of a GPU",
        {
            "explain": text(r"^Rank (?P<key>\d+): nearest NIC (?P<value>[^\s,]+)"),
            "explain --json": document(json.nics),
            "node screen": text(
                r"^[› ].[ ]*(?P<key>\d+)\s+[0-9a-f]{2,4}:[0-9a-f]{2}\S*.*\s\d+  "
                r"(?P<value>[a-z]\w+) (?:near|same|far)"
            ),
            "node panel": flow(
                r"^ NIC +[NR]CCL takes (?P<value>[^\s:]+):", within=r"^PAGE (?:GPU)?(?P<key>\S+)$"
            ),
        },
        ("eth7", "eth8"),
    ),
    Fact(
        "path to the NIC of a GPU",
        {
            "explain": text(r"^Rank (?P<key>\d+): nearest NIC [^\s,]+, (?P<value>[A-Z]+) "),
            "node panel": flow(
                r"^ NIC +[NR]CCL takes [^\s:]+: (?P<value>[A-Z]+),",
                within=r"^PAGE (?:GPU)?(?P<key>\S+)$",
            ),
        },
        ("LOC", "DIS"),
    ),
    Fact(
        "version of the library",
        {
            "explain": text(r"\A[NR]CCL (?P<value>[\d.]+),"),
            "explain --json": document(json.at("library", "version")),
            "flags": text(r"rules of [NR]CCL (?P<value>[\d.]+\d)"),
            "flags --json": document(json.at("library", "version")),
            "node screen": text(r"all-reduce 1 GiB.*· [NR]CCL (?P<value>[\d.]+\d)$"),
            "pair steps": text(r"^(?:.*\. )?[NR]CCL (?P<value>[\d.]+\d) will use"),
            "pair why": text(r"^(?:.*\. )?[NR]CCL (?P<value>[\d.]+\d) will use"),
        },
        ("1.2.3", "1.2.4"),
    ),
)
