"""What `nvidia-smi -q` calls a value in its text, and what it is called in its XML."""

from __future__ import annotations

NAMES = {
    "MIG Mode/Current": "mig_mode/current_mig",
    "MIG Mode/Pending": "mig_mode/pending_mig",
    "ECC Mode/Current": "ecc_mode/current_ecc",
    "ECC Mode/Pending": "ecc_mode/pending_ecc",
    "Serial Number": "serial",
    "GPU UUID": "uuid",
    "Minor Number": "minor_number",
    "VBIOS Version": "vbios_version",
    "Board ID": "board_id",
    "Board Part Number": "board_part_number",
    "Module ID": "gpu_module_id",
    "Platform Info/Module Id": "platformInfo/module_id",
    "GPU Virtualization Mode/Virtualization Mode": "gpu_virtualization_mode/virtualization_mode",
    "GPU C2C Mode": "c2c_mode",
    "PCI/Bus Id": "pci/pci_bus_id",
    "PCI/Device Id": "pci/pci_device_id",
    "PCI/GPU Link Info/PCIe Generation/Max": "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
    "PCI/GPU Link Info/PCIe Generation/Current": "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
    "PCI/GPU Link Info/PCIe Generation/Device Max": (
        "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen"
    ),
    "PCI/GPU Link Info/Link Width/Max": "pci/pci_gpu_link_info/link_widths/max_link_width",
    "PCI/GPU Link Info/Link Width/Current": "pci/pci_gpu_link_info/link_widths/current_link_width",
    "PCI/Replays Since Reset": "pci/replay_counter",
    "PCI/Tx Throughput": "pci/tx_util",
    "PCI/Rx Throughput": "pci/rx_util",
    "Utilization/GPU": "utilization/gpu_util",
    "Utilization/Memory": "utilization/memory_util",
    "Retired Pages/Single Bit ECC": "retired_pages/multiple_single_bit_retirement/retired_count",
    "ECC Errors/Unrepairable Memory": "ecc_errors/unrepairable_memory",
    "Retired Pages/Double Bit ECC": "retired_pages/double_bit_retirement/retired_count",
    "Retired Pages/Pending Page Blacklist": "retired_pages/pending_retirement",
    "Retired Pages/Pending": "retired_pages/pending_retirement",
    "Remapped Rows/Correctable Error": "remapped_rows/remapped_row_corr",
    "Remapped Rows/Uncorrectable Error": "remapped_rows/remapped_row_unc",
    "Remapped Rows/Pending": "remapped_rows/remapped_row_pending",
    "Remapped Rows/Remapping Failure Occurred": "remapped_rows/remapped_row_failure",
    "Temperature/GPU Current Temp": "temperature/gpu_temp",
    "Temperature/Memory Current Temp": "temperature/memory_temp",
    "Temperature/GPU Shutdown Temp": "temperature/gpu_temp_max_threshold",
    "Temperature/GPU Slowdown Temp": "temperature/gpu_temp_slow_threshold",
    "Temperature/GPU Max Operating Temp": "temperature/gpu_temp_max_gpu_threshold",
    "Temperature/Memory Max Operating Temp": "temperature/gpu_temp_max_mem_threshold",
    "Temperature/GPU Shutdown T.Limit Temp": "temperature/gpu_temp_max_tlimit_threshold",
    "Temperature/GPU Slowdown T.Limit Temp": "temperature/gpu_temp_slow_tlimit_threshold",
    "Temperature/GPU Max Operating T.Limit Temp": "temperature/gpu_temp_max_gpu_tlimit_threshold",
    "Temperature/Memory Max Operating T.Limit Temp": (
        "temperature/gpu_temp_max_mem_tlimit_threshold"
    ),
    "GPU Power Readings/Average Power Draw": "gpu_power_readings/average_power_draw",
    "GPU Power Readings/Instantaneous Power Draw": "gpu_power_readings/instant_power_draw",
    "Fabric/CliqueId": "fabric/cliqueId",
    "Fabric/ClusterUUID": "fabric/clusterUuid",
}
NAMES |= {
    f"{group}/{said}": f"{tag}/{name}_clock"
    for group, tag in (("Clocks", "clocks"), ("Max Clocks", "max_clocks"))
    for said, name in (
        ("Graphics", "graphics"),
        ("SM", "sm"),
        ("Memory", "mem"),
        ("Video", "video"),
    )
}
NAMES |= {
    f"Clocks {word} Reasons/{said}": f"clocks_{tag}_reasons/clocks_{tag}_reason_{name}"
    for word, tag in (("Throttle", "throttle"), ("Event", "event"))
    for said, name in (
        ("Idle", "gpu_idle"),
        ("Applications Clocks Setting", "applications_clocks_setting"),
        ("SW Power Cap", "sw_power_cap"),
        ("HW Slowdown", "hw_slowdown"),
        ("HW Thermal Slowdown", "hw_thermal_slowdown"),
        ("HW Power Brake Slowdown", "hw_power_brake_slowdown"),
        ("Sync Boost", "sync_boost"),
        ("SW Thermal Slowdown", "sw_thermal_slowdown"),
        ("Display Clock Setting", "display_clocks_setting"),
    )
}
NAMES |= {
    f"ECC Errors/{time}/{said}": f"ecc_errors/{time.lower()}/{name}"
    for time in ("Volatile", "Aggregate")
    for said, name in (
        ("SRAM Correctable", "sram_correctable"),
        ("SRAM Uncorrectable", "sram_uncorrectable"),
        ("SRAM Uncorrectable Parity", "sram_uncorrectable_parity"),
        ("SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded"),
        ("DRAM Correctable", "dram_correctable"),
        ("DRAM Uncorrectable", "dram_uncorrectable"),
        ("Single Bit/Total", "single_bit/total"),
        ("Double Bit/Total", "double_bit/total"),
    )
}
ALIKE = (
    "Product Name",
    "Product Architecture",
    "Persistence Mode",
    "GSP Firmware Version",
    "GPU Recovery Action",
    "Performance State",
    "Compute Mode",
    "Processes",
    "FB Memory Usage/Total",
    "FB Memory Usage/Used",
    "FB Memory Usage/Free",
    "BAR1 Memory Usage/Total",
    "BAR1 Memory Usage/Used",
    "Fabric/State",
    "Fabric/Status",
    *(
        f"{group}Power Readings/{said}"
        for group in ("", "GPU ")
        for said in (
            "Power Draw",
            "Power Limit",
            "Current Power Limit",
            "Enforced Power Limit",
            "Default Power Limit",
            "Min Power Limit",
            "Max Power Limit",
        )
    ),
)
"""Names that the XML writes in lower case, with underlines."""
NAMES |= {name: name.lower().replace(" ", "_") for name in ALIKE}
PATHS = {name.lower(): path for name, path in NAMES.items()}
"""Paths in the XML by the headings and the name in the text, in lower case: drivers differ."""
