"""Rules about PCIe and the P2P over it."""
