"""What the kernel tells in /sys and /proc, read and understood."""
