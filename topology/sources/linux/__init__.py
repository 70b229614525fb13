"""What the kernel reports in /sys and /proc, read and parsed."""
