"""Libtorch of other versions."""
