"""Questions that gputop answers, one a file: the answer as a page and as JSON."""
