"""What stands in a text refutes steps and causes that another line of it suggests."""

import io
import re

import pytest

from gputop.topology.diagnosis.mechanism.causes import PossibleCause, ranked
from gputop.topology.diagnosis.symptoms.explain import known_signs, table
from gputop.topology.diagnosis.symptoms.log import symptoms
from gputop.topology.diagnosis.symptoms.refuted import refutations
from gputop.topology.hardware.faults.catalogue import KernelFault, fault_of
from gputop.topology.logs.reading.read import read_log
from gputop.topology.model.finding import Finding
from gputop.topology.model.severity import BROKEN, NOTICE
from gputop.topology.sources.linux.kernel_lines import read_lines


def _found(text: str) -> dict[str, Finding]:
    log = read_log(io.BytesIO(text.encode()), name="x", signs=known_signs(), outputs=True)
    return {one.id: one for one in symptoms(log)[0]}


def _fault(line: str) -> KernelFault:
    (event,) = read_lines([f"[    3.000001] {line}"]).kernel_events or ()
    return fault_of(event)


MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\n"


@pytest.mark.parametrize(
    "said",
    [
        "I already rebooted the node twice and it is still there",
        "Rebooting does not fix it.",
        "same error after a reboot",
        "[    9.104441] NVRM: API mismatch: the client has the version 550.90.07, but",
    ],
)
def test_a_restart_that_did_not_help_is_not_advised(said: str) -> None:
    assert any("reboot" in fix.text for fix in _found(MISMATCH)["driver-mismatch"].fix)
    (first, *_) = _found(f"{MISMATCH}{said}\n")["driver-mismatch"].fix
    assert not first.text.startswith("reboot")
    assert "version" in first.text


@pytest.mark.parametrize("said", ["I have not rebooted yet", "It began after the reboot of May."])
def test_other_words_of_restarts_refute_nothing(said: str) -> None:
    (first, *_) = _found(f"{MISMATCH}{said}\n")["driver-mismatch"].fix
    assert first.text.startswith("reboot")


def test_amd_smi_in_wsl_accuses_no_gpu() -> None:
    said = (
        "ERROR:root:Driver not initialized (amdgpu not found in modules)\n"
        "Linux box 5.15.153.1-microsoft-standard-WSL2 #1 SMP x86_64 GNU/Linux\n"
    )
    beside = _found(said)["hip-no-device"]
    assert (beside.severity, "WSL" in beside.title) == (NOTICE, True)
    alone = _found(said.replace("microsoft-standard-WSL2", "generic"))["hip-no-device"]
    assert alone.severity is BROKEN


def test_each_refuted_claim_names_a_row() -> None:
    assert {claim.id for claim in refutations().claim} <= {row.id for row in table()}


@pytest.mark.parametrize("module", ["gdrdrv", "amdgpu", "nvidia_peermem", "knem"])
def test_a_module_that_lsmod_shows_is_not_called_not_loaded(module: str) -> None:
    name = module.replace("_", "-")
    first = PossibleCause(cause=f"The module {name} is not loaded.", decide="lsmod", fix="load it")
    other = PossibleCause(cause="Something else.", decide="look", fix="mend it")
    shown = [f"{module}                 16384  0", f"nvidia   34654122  22 {module}"]
    assert [one.cause for one in ranked((first, other), shown)] == [other.cause, first.cause]
    of_others = ["nvidia_fs   16384  0", f"nvidia 34654122 2 {module}"]
    assert ranked((first, other), of_others)[0].cause == first.cause


@pytest.mark.parametrize(
    "line",
    [
        "amdgpu 0000:83:00.0: amdgpu: failed to load ucode SDMA0(0x1)",
        "amdgpu 0000:83:00.0: amdgpu: psp gfx command INVOKE_CMD(0x3) failed and response status",
        "[drm] psp command failed and response status is (0xFFFF000F)",
    ],
)
def test_a_security_processor_that_refuses_one_thing_is_there(line: str) -> None:
    fault = _fault(line)
    assert (fault.rule, fault.severity) == ("amdgpu-firmware", NOTICE)


def test_a_security_processor_that_cannot_set_up_its_memory_stops_the_gpu() -> None:
    line = "amdgpu 0000:83:00.0: amdgpu: psp gfx command SETUP_TMR(0x5) failed and response status"
    assert _fault(line).severity is BROKEN


def test_a_hang_is_cured_by_an_older_release_as_well_as_by_a_newer_one() -> None:
    line = "amdgpu 0000:83:00.0: amdgpu: ring sdma0 timeout, signaled seq=1, emitted seq=3"
    said = " ".join(_fault(line).fix)
    assert re.search("newer", said)
    assert re.search("the one before", said)
