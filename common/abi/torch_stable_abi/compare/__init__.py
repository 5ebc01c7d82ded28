"""compare: tells whether two libraries do the same."""
