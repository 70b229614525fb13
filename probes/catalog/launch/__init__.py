"""The probe launch."""
