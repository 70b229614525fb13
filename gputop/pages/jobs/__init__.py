"""What jobs say of themselves: a table and a document."""
