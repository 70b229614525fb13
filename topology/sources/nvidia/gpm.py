"""Shares of a GPU's units over a time: GPU Performance Monitoring, in NVML from Hopper on.

Two samples are taken and compared. "Utilisation" says that a kernel ran; these say how many
multiprocessors, tensor cores and how much of the memory's bandwidth it took, so that a kernel of
NCCL that waits is told from one that computes (nvml.h: nvmlGpmMetricsGet).
"""

from __future__ import annotations

from typing import Any

from .library import NvmlLibrary, refused

METRICS = {
    "busy": "NVML_GPM_METRIC_GRAPHICS_UTIL",
    "sm": "NVML_GPM_METRIC_SM_UTIL",
    "tensor": "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
    "dram": "NVML_GPM_METRIC_DRAM_BW_UTIL",
    "pcie_tx": "NVML_GPM_METRIC_PCIE_TX_PER_SEC",
    "pcie_rx": "NVML_GPM_METRIC_PCIE_RX_PER_SEC",
    "nvlink_tx": "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC",
    "nvlink_rx": "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC",
}
"""The first four in percent, the others in MiB a second."""


class GpmMeter:
    """One GPU's last sample, and the room for the next."""

    def __init__(self, library: NvmlLibrary, handle: object) -> None:
        self._library, self._handle = library, handle
        self._asked = self._structure()
        self._samples = [library.handle("nvmlGpmSampleAlloc") for _ in range(2 * bool(self._asked))]
        self.supported = bool(self._samples) and None not in self._samples and self._take(0)

    def _structure(self) -> Any:
        """What is asked; None where the GPU, the driver or the binding has no such metrics."""
        binding = self._library.binding
        support = self._library.handle("nvmlGpmQueryDeviceSupport", self._handle)
        if not getattr(support, "isSupportedDevice", 0):
            return None
        numbers = [getattr(binding, name, None) for name in METRICS.values()]
        if None in numbers or not hasattr(binding, "c_nvmlGpmMetricsGet_t"):
            return None
        asked = binding.c_nvmlGpmMetricsGet_t()
        asked.version = binding.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(numbers)
        for place, number in enumerate(numbers):
            asked.metrics[place].metricId = number
        return asked

    def _take(self, place: int) -> bool:
        answer = self._library.ask("nvmlGpmSampleGet", self._handle, self._samples[place])
        return not refused(answer)

    def since_last(self) -> dict[str, float]:
        """The metrics since the sample before, without those that the driver does not give.

        Raises GpuLost.
        """
        if not self.supported or not self._take(1):
            return {}
        asked = self._asked
        asked.sample1, asked.sample2 = self._samples
        self._samples.reverse()
        if self._library.handle("nvmlGpmMetricsGet", asked) is None:
            return {}
        found = {name: asked.metrics[place] for place, name in enumerate(METRICS)}
        return {name: metric.value for name, metric in found.items() if metric.nvmlReturn == 0}

    def close(self) -> None:
        """Give the samples back."""
        for sample in filter(None, self._samples):
            self._library.ask("nvmlGpmSampleFree", sample)
        self._samples, self.supported = [], False
