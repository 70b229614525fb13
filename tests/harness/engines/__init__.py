"""Launchers that people run (Slurm, Open MPI, ClusterShell, pdsh), each tried on this machine."""
