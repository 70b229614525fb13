"""What a person would draw of a node on a whiteboard: boxes, lines, and the cells they take."""
