"""What docs/adding.md promises about adding something, tried in a copy of the checkout."""
