"""The probes p2p and p2p-concurrent."""
