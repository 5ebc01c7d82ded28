"""compare: whether two libraries do the same."""
