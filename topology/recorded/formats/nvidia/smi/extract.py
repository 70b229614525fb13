"""What `grep` leaves of `nvidia-smi -q`: values below some of their headings."""

from .full_text import EXTRACT

FORMAT = EXTRACT
