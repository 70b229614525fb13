"""Variables that people paste: `export NAME=VALUE`, `-x NAME=VALUE`, `NAME: VALUE`, `env`."""

import re

NAMES = (
    b"NCCL_", b"RCCL_", b"CUDA_", b"HIP_", b"ROCR_", b"HSA_", b"NVIDIA_", b"FI_", b"GLOO_", b"UCX_",
)  # fmt: skip
"""Each name that is read holds one of these."""
_NAME = rb"(?:(?:TORCH_|OFI_)?[NR]CCL|CUDA|HIP|ROCR|HSA|NVIDIA|FI|GLOO|UCX)_[A-Z0-9_]+"
_VALUE = rb"(?:\"([^\"]*)\"|'([^']*)'|([^\s;\"']*))"
_LEADING = re.compile(
    rb"^[\s>]*(?:\[\d+(?:,\d+)?\](?:<\w+>)?:? ?|\d+: )?(?:(?:\$|\S+[$#]) )?"
    rb"(?:export |declare -x |setenv |env |ENV |set )?\s*(" + _NAME + rb")=" + _VALUE
)
_FURTHER = re.compile(rb"[\s;]+(" + _NAME + rb")=" + _VALUE)
_OPTION = re.compile(
    rb"(?:\s-x |\s-e |\s-env |--env[ =]|\sexport |os\.environ\[[\"'])"
    rb"(" + _NAME + rb")(?:[\"']\])?\s?=\s?" + _VALUE
)
_JSON = re.compile(rb"^\W*[\"'](" + _NAME + rb")[\"']\s?: ?[\"']([^\"']*)[\"'],?\s*$")
_YAML = re.compile(rb"^[\s>]*(?:- )?(" + _NAME + rb"): +" + _VALUE + rb"\s*$")
_MARKS = (b"-x ", b"-e ", b"-env ", b"--env", b"export ", b"environ[")
LONGEST = 8192
Setting = tuple[bytes, bytes]


def settings_in(line: bytes) -> list[Setting]:
    """The variables that a line sets, with their values; nothing for a mention in a sentence."""
    line = line[:LONGEST]
    if line.lstrip(b" >\t")[:1] == b"#":
        return []
    if (mapped := _YAML.match(line)) is not None:
        return [_setting(mapped)]
    if line.find(b"=") < 0:
        entry = _JSON.match(line)
        return [] if entry is None else [(entry[1], entry[2])]
    first = _LEADING.match(line)
    found = []
    if first is not None:
        found.append(_setting(first))
        at = first.end()
        while (further := _FURTHER.match(line, at)) is not None:
            found.append(_setting(further))
            at = further.end()
    if any(mark in line for mark in _MARKS):
        found += [_setting(match) for match in _OPTION.finditer(b" " + line)]
    return list(dict.fromkeys(found))


def _setting(match: re.Match[bytes]) -> Setting:
    return match[1], match[2] or match[3] or match[4] or b""
