"""Times of collectives on the GPUs of one node, apart from gputop's own probes."""
