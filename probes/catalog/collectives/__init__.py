"""The probe collectives."""
