"""What a built extension needs and brings, read from its file: nothing of it is
loaded or run."""
