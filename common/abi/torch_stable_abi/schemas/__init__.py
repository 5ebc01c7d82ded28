"""The calls by name of a library, compared with the schemas of libtorch."""
