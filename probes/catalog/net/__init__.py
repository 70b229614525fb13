"""The probe net."""
