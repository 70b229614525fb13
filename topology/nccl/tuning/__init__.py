"""Which algorithm and protocol a collective of a size gets, and the time it should take."""
