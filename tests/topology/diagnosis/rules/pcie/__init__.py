"""The rules about pcie."""
