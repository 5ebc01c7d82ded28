"""The tracer of the boundary: building it, and running a program with it."""
