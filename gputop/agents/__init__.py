"""The answers of gputop as tools for agents: the Model Context Protocol over stdin and stdout."""
