"""Long trials of the whole program: a soak of the app, and mutated input for every command."""
