"""What the GPUs and processes of a job do over some seconds, and which rank the others wait for."""
