"""The audit: it reads from a file what a built extension needs and brings; nothing of
it is loaded or run."""
