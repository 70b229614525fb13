"""A stand-in for the binding amdsmi, and the real ones that it is compared with."""
