"""The rules about jobs."""
