"""PCI functions and the network devices on them, from sysfs."""
