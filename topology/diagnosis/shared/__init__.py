"""Code that several rules share; there is no rule here."""
