"""NVML's numbers in words. Values of nvml.h (nvidia-ml-py 13.615.71 carries the same constants)."""

from __future__ import annotations

RETURNS = {
    0: "Success",
    1: "Uninitialized",
    2: "Invalid Argument",
    3: "Not Supported",
    4: "Insufficient Permissions",
    5: "Already Initialized",
    6: "Not Found",
    7: "Insufficient Size",
    8: "Insufficient External Power",
    9: "Driver Not Loaded",
    10: "Timeout",
    11: "Interrupt Request Issue",
    12: "NVML Shared Library Not Found",
    13: "Function Not Found",
    14: "Corrupted infoROM",
    15: "GPU is lost",
    16: "GPU requires restart",
    17: "The operating system has blocked the request",
    18: "Driver/library version mismatch",
    19: "In use by another client",
    20: "Insufficient Memory",
    21: "No data",
    22: "vGPU ECC not supported",
    23: "Insufficient Resources",
    24: "Frequency not supported",
    25: "Argument version mismatch",
    26: "Deprecated",
    27: "System is not in ready state",
    28: "GPU not found",
    29: "Invalid State",
    30: "Reset type not supported",
    999: "Unknown Error",
}
ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
COMPUTE_MODES = {
    0: "default",
    1: "exclusive thread",
    2: "prohibited",
    3: "exclusive process",
}
VIRTUALIZATION = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host vgpu", 4: "host vsga"}
ANCESTORS = {
    0: "internal",
    10: "single",
    20: "multiple",
    30: "hostbridge",
    40: "node",
    50: "system",
}
P2P_STATUS = {
    0: "ok",
    1: "chipset not supported",
    2: "gpu not supported",
    3: "topology not supported",
    4: "disabled by registry key",
    5: "not supported",
}
P2P_STATUS_UNKNOWN = 6
NVLINK_VERSIONS = {
    1: "1.0",
    2: "2.0",
    3: "2.2",
    4: "3.0",
    5: "3.1",
    6: "4.0",
    7: "5.0",
    8: "6.0",
}
NVLINK_REMOTES = {0: "gpu", 1: "ibmnpu", 2: "nvswitch"}
FABRIC_STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
FABRIC_SUMMARIES = {0: "not supported", 1: "healthy", 2: "unhealthy", 3: "limited capacity"}
CONFIDENTIAL = {0: "off", 1: "on"}

_THROTTLE = (
    (0x1, "gpu idle"),
    (0x2, "applications clocks"),
    (0x4, "sw power cap"),
    (0x8, "hw slowdown"),
    (0x10, "sync boost"),
    (0x20, "sw thermal"),
    (0x40, "hw thermal"),
    (0x80, "hw power brake"),
    (0x100, "display clock"),
)
_TRUTH = {0: "not supported", 1: "true", 2: "false"}
_HEALTH: tuple[tuple[str, int, int, dict[int, str]], ...] = (
    # nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_* and _WIDTH_*: name, shift, mask, words.
    ("degraded bandwidth", 0, 0x3, _TRUTH),
    ("route recovery in progress", 2, 0x3, _TRUTH),
    ("route unhealthy", 4, 0x3, _TRUTH),
    ("access timeout recovery", 6, 0x3, _TRUTH),
    (
        "incorrect configuration",
        8,
        0xF,
        {
            0: "not supported",
            1: "none",
            2: "incorrect system GUID",
            3: "incorrect chassis serial number",
            4: "no partition",
            5: "insufficient NVLinks",
            6: "incompatible GPU firmware",
            7: "invalid location",
            8: "GPU state invalid",
        },
    ),
    # "yes" instead of "true", because "true" means trouble elsewhere.
    ("partition assigned", 12, 0x3, {0: "not supported", 1: "yes", 2: "no"}),
    ("fabric manager state", 14, 0x3, {0: "not supported", 1: "connected", 2: "disconnected"}),
)

HEALTH_AS_PRINTED = {
    ("bandwidth", "full"): ("degraded bandwidth", "false"),
    ("bandwidth", "degraded"): ("degraded bandwidth", "true"),
    ("partition_assigned", "true"): ("partition assigned", "yes"),
    ("partition_assigned", "false"): ("partition assigned", "no"),
    ("gfm_state", "connected"): ("fabric manager state", "connected"),
    ("gfm_state", "disconnected"): ("fabric manager state", "disconnected"),
}
"""Fields of a fabric's health that nvidia-smi names differently from NVML's mask."""


def word(words: dict[int, str], number: int) -> str:
    """Name a number; one that the table lacks becomes "unknown (N)"."""
    return words.get(number, f"unknown ({number})")


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """Decode NVML's clocks event reasons; a bit without a name becomes "unknown (0x200)"."""
    names = [name for bit, name in _THROTTLE if mask & bit]
    rest = mask & ~0x1FF
    return (*names, f"unknown ({rest:#x})") if rest else tuple(names)


def fabric_health(mask: int) -> tuple[tuple[str, str], ...]:
    """Decode the fabric health mask: 0xaa = no trouble, each two-bit field says "false".

    A field of 0 is "not supported" by this fabric, so a mask of 0 says nothing either way.
    """
    return tuple(
        (name, word(words, (mask >> shift) & width)) for name, shift, width, words in _HEALTH
    )


def bits(words: list[int]) -> tuple[int, ...]:
    """Numbers of the bits that are set in a list of 64-bit words."""
    return tuple(
        64 * position + bit
        for position, number in enumerate(words)
        for bit in range(64)
        if number >> bit & 1
    )


def ranges(numbers: tuple[int, ...]) -> str:
    """Write ascending numbers as a list the kernel would print: "0-31,64-95"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in runs)
