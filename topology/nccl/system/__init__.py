"""The system that NCCL and RCCL build from a topology XML: nodes, links, paths."""
