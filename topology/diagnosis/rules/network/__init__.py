"""Rules about NICs, RDMA and sockets."""
