"""What a debug log says: the records that reading it gives."""
