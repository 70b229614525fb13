"""The rules about nvlink."""
