"""NCCL's RAS service: whom to ask, the exchange of lines, and what the answers say."""
