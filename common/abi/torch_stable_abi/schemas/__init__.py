"""What a library calls by name, and what libtorch has."""
