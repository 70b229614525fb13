"""What lines of a log mean: a table, and checks that look at several lines."""
