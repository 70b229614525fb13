"""What a model costs on a node: bytes, FLOP, seconds of a step, layouts. Pure; nothing here reads.

Each figure is worked out from the shape of the model, the rates of the GPU and the times of the
collectives; where one of them is not known the answer is None with the reason, never 0.
"""
