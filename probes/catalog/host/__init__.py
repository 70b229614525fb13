"""The probe host."""
