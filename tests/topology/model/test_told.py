"""Which lines hold the words of a failure that nobody printed: commands, source, prose about it."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from gputop.topology.diagnosis.symptoms.explain import table
from gputop.topology.model import no_output, told
from gputop.topology.model.no_output import is_no_output
from gputop.topology.model.told import is_told

LINES = sorted(
    {
        line.translate({ord(sign): None for sign in "\"'`*{}"}).strip()
        for row in table()
        if row.any and row.severity.counts
        for line in row.shown
    }
)
"""What programs print where something broke or is slow, as the tables quote it, without the signs
that end a string or a span."""
TOLD = (
    'Does anyone know what "{}" means?',
    'What does "{}" mean?',
    'The error "{}" means that the driver is not loaded.',
    'According to the manual, "{}" is printed where the module is not loaded.',
    "You can ignore {}.",
    'There was no "{}" in the log.',
    'I do not see "{}" anywhere.',
    'A message like "{}" is expected here.',
    'Look for "{}" in the log.',
    "# {}",
    "    # {}",
    "#and {}",
    "* Fix {} on start (#123)",
    "abc1234 Do not print '{}' twice",
    "Bug fixes: {}",
    "[BUGFIX] {}",
    "* Known issue: {}",
    "Fixes: {}",
    "- [ ] {}",
    "Bug 4711: {}",
    "Subject: [PATCH] Fix {}",
    "v1.2: no more '{}'",
)
TYPED = (
    "grep '{}' /var/log/syslog",
    "sudo dmesg -T | grep -E '{}|other'",
    "$ kubectl logs pod | grep -q '{}' && exit 1",
    'docker logs c 2>&1 | grep "{}"',
    "watch \"dmesg | grep '{}'\"",
    'findstr "{}" log.txt',
    '[ -e /dev/x ] || echo "{}"',
    'test -e /x || {{ echo "{}"; exit 1; }}',
    'die "{}"',
    'log_error "{}"',
    'RUN echo "{}"',
    "--retry N     try N times when {}",
    "  -f, --force   ignore {}",
    "usage: x [--ignore '{}']",
    'return fmt.Errorf("{}: %w", err)',
    'errors.New("{}")',
    'slurm_error("{}");',
    'dev_err(dev, "{}\\n");',
    'panic!("{}");',
    'ereport(ERROR, (errmsg("{}")));',
    'expect(log).toContain("{}")',
    'pytest.raises(RuntimeError, match="{}")',
    'LOG(FATAL) << "{}";',
    'XE(3, "{}")',
    'case 3: return "{}";',
    '- match: "{}"',
    '("{}", 3),',
    'msgid "{}"',
    '"{}\\n"',
    '"""{}"""',
    "<!-- {} -->",
    "int a; // {}",
    "x = 1  # {}",
)
PRINTED = (
    *(f"{head}RuntimeError: CUDA error: out of memory" for head in ("", "> ", "  ", "[rank3]: ")),
    "ray.exceptions.RayTaskError(RuntimeError('CUDA error: out of memory'))",
    "ray.exceptions.ActorDiedError('The actor died: out of memory')",
    'level=error msg="CUDA error: out of memory"',
    '    reason: "CUDA error: out of memory"',
    '"CUDA error: out of memory"',
    'Error: DriverError("CUDA error: out of memory")',
    "CUDA error: out of memory; look into dmesg | grep NVRM",
    "-- Process 1 terminated with the following error:",
    "10.10.23.10: node1:1307367:1307586 [0] proxy.cc:684 NCCL WARN collective mismatch error",
    'open("/dev/nvidiactl", O_RDWR)          = -1 EPERM (Operation not permitted)',
    "grep: /dev/nvidia0: No such file or directory",
    "-rw-r--r--   1 root root 0 Jan  5 10:00 nvidia",
    "#  Rank  0 Group  0 Pid   7 on n1 device  0 [0x07] NVIDIA H100",
    "# Out of bounds values : 8 FAILED",
    "#12 3.456 E: Unable to locate package cuda",
    "#12 ERROR: process did not complete successfully",
    "#0-0 (796d8eeac092a072) INCOMPLETE",
    "#2 <module> from /job/job.py:54",
    "#0  0x00007f6f in raise () from /lib64/libc.so.6",
    "Cannot connect to the Docker daemon. Is the docker daemon running?",
    "ibwarn: [77] umad_init: can't read ABI version: is ib_umad module loaded?",
)


@pytest.mark.parametrize("frame", TOLD)
def test_who_speaks_of_a_failure_does_not_print_it(frame: str) -> None:
    assert [line for line in LINES if not _said(frame.format(line))] == []


@pytest.mark.parametrize("frame", TYPED)
def test_what_is_typed_or_stands_in_a_program_did_not_happen(frame: str) -> None:
    assert [line for line in LINES if not is_no_output(frame.format(line))] == []


@pytest.mark.parametrize("line", PRINTED)
def test_what_programs_print_counts(line: str) -> None:
    assert not _said(line)


def _said(line: str) -> bool:
    return is_no_output(line) or is_told(line)


@pytest.mark.parametrize("module", [told, no_output])
def test_no_pattern_knows_one_digit_from_another(module: ModuleType) -> None:
    patterns = [one.pattern for one in vars(module).values() if isinstance(one, re.Pattern)]
    bare = [re.sub(r"\{\d*,?\d*\}|0-9|\\u\w{4}", "", pattern) for pattern in patterns]
    assert bare
    assert [pattern for pattern in bare if re.search(r"\d", pattern)] == []
