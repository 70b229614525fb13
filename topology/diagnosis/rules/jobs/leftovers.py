"""Variables that no program reads, that name a missing file, or that remain from debugging."""

from collections.abc import Mapping

from ....model.page import UNSET, Fix
from ....model.severity import BROKEN, NOTICE, SLOW
from ...case import ENVIRONMENT, Case
from ...rule import Found, Rule, faulty
from ...shared.near import called, jobs
from .flags import number_of, take_away

FILES = {
    "NCCL_TOPO_FILE": (SLOW, "{library} goes on with what it detects: in a virtual machine that is "
        "a flat tree, in which it cannot tell a near NIC from a far one."),
    "NCCL_GRAPH_FILE": (BROKEN, "{library} does not start: it must read the graph that this "
        "names."),
    "NCCL_CONF_FILE": (NOTICE, "{library} goes on without what the file was to set."),
}  # fmt: skip
"""Variables that name a file to be read, how bad it is when there is none, and what then happens
(graph/xml.cc:ncclTopoGetXmlFromFile, ncclTopoGetXmlGraphFromFile, misc/param.cc)."""
DEBUG: Mapping[str, tuple[tuple[str, ...], str]] = {
    "CUDA_LAUNCH_BLOCKING": (("",), "the program waits after every kernel"),
    "HIP_LAUNCH_BLOCKING": (("",), "the program waits after every kernel"),
    "AMD_SERIALIZE_KERNEL": (("",), "the program waits before or after every kernel"),
    "AMD_SERIALIZE_COPY": (("",), "the program waits before or after every copy"),
    "NCCL_CHECK_POINTERS": (("",), "{library} checks the pointers of every call"),
    "TORCH_DISTRIBUTED_DEBUG": (("DETAIL",), "all ranks compare every collective first"),
    "NCCL_DEBUG": (("TRACE",), "every call of {library} writes a line"),
}
"""Name -> values that cost time ("": any number except 0), and what they do."""


def _ignored(case: Case) -> Found:
    prediction = case.prediction
    if prediction is None or not case.variables_read:
        return None
    found = faulty([entry for entry in prediction.ignored if entry[0] in case.variables])
    names = [name for name, _, _ in found]
    return IGNORED.finding(
        NOTICE,
        f"{prediction.library.name.upper()} makes nothing of {', '.join(names)}",
        evidence=[(f"{name}={value}", why, case.variables[name][1]) for name, value, why in found],
        impact="What whoever set it wanted does not happen; the default holds.",
        fix=[("See what each of them does here. $ gputop flags {:variable}", names[0])],
    )


def _files(case: Case) -> Found:
    named = [name for name in FILES if name in case.variables]
    if not named:
        return [] if case.snapshot.is_live or case.snapshot.environment else None
    missing = {
        name: problem.text.removeprefix(f"{name}: ")
        for problem in case.snapshot.problems
        if problem.source == ENVIRONMENT
        for name in named
        if problem.text.startswith(f"{name}: ")
    }
    return [
        MISSING.finding(
            FILES[name][0],
            f"{name} names a file that cannot be read",
            evidence=[(name, why, case.variables[name][1])],
            impact=case.words.fill(FILES[name][1]),
            fix=take_away(case, [name]),
        )
        for name, why in missing.items()
    ]


def _debug(case: Case) -> Found:
    running = [process for process, _ in jobs(case) if process.variables is not None]
    if not (case.snapshot.environment or case.snapshot.is_live or running):
        return None
    listed = [(name, *told) for name, told in case.variables.items()]
    listed += [
        (name, value, called(process))
        for process in running
        for name, value in process.variables or ()
        if case.variables.get(name, ("",))[0] != value
    ]
    found = faulty([entry for entry in listed if _slows(*entry[:2])])
    names = list(dict.fromkeys(f"{name}={value}" for name, value, _ in found))
    return DEBUG_FLAGS.finding(
        SLOW,
        f"left over from debugging: {', '.join(names)}",
        evidence=found,
        impact=". ".join(
            dict.fromkeys(f"With {name} {case.words.fill(DEBUG[name][1])}" for name, *_ in found)
        )
        + ".",
        fix=[
            Fix.of(
                "Start the job without it.", UNSET, list(dict.fromkeys(name for name, *_ in found))
            )
        ],
    )


def _slows(name: str, value: str) -> bool:
    if name not in DEBUG:
        return False
    wanted = DEBUG[name][0]
    if wanted == ("",):
        return number_of(value) not in (None, 0)
    return value.upper() in wanted


def _from_file(case: Case) -> Found:
    if not case.snapshot.environment:
        return [] if case.snapshot.is_live else None
    found = faulty([(n, v, o) for n, (v, o) in case.variables.items() if o != ENVIRONMENT])
    files = list(dict.fromkeys(origin for _, _, origin in found))
    return FROM_FILE.finding(
        NOTICE,
        f"{' and '.join(files)} set{'s' * (len(files) == 1)} "
        f"{', '.join(name for name, _, _ in found)}",
        evidence=found,
        impact=f"{case.words.library} reads this by itself: `env` does not show it, and "
        "it holds for every job on this node that does not set the name itself.",
    )


IGNORED = Rule(
    id="flag-ignored",
    family="D28",
    title="variables that have no effect as they are written",
    evidence="variables of the environment and of configuration files",
    disproof="a line `set by environment` with the name in NCCL_DEBUG=INFO",
    sources=("NCCL src/misc/param.cc", "NCCL src/graph/paths.cc:ncclGetLevel"),
    check=_ignored,
)
MISSING = Rule(
    id="flag-file-missing",
    family="D28",
    title="variables that name a file that is not there",
    evidence="variables that name a file, and whether it can be read",
    disproof="the file, readable by the user who starts the job",
    sources=("NCCL src/graph/xml.cc", "NCCL src/misc/param.cc"),
    check=_files,
)
DEBUG_FLAGS = Rule(
    id="debug-flags",
    family="D28",
    title="variables for debugging that slow a job",
    evidence="variables of the environment, of configuration files and of GPU processes",
    disproof="the same step time without the variable",
    sources=("CUDA programming guide, environment variables", "PyTorch documents, distributed"),
    check=_debug,
)
FROM_FILE = Rule(
    id="flags-from-file",
    family="D28",
    title="variables that a configuration file sets",
    evidence="nccl.conf of the user and of the system",
    disproof="a file without the line",
    sources=("NCCL src/misc/param.cc", "NCCL user guide, environment variables"),
    check=_from_file,
)

RULES = (MISSING, DEBUG_FLAGS, IGNORED, FROM_FILE)
