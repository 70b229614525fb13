"""Public threads of users with slow or failing jobs, as a benchmark of what gputop answers."""
