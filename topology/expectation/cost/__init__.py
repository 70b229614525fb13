"""What communication costs on a node: a healthy figure and the one here, from one place.

Every screen, finding and command that says what is lost takes its pair of figures from here, so
that one fact has one figure.
"""
