"""The probe train-step."""
