"""Telling the test which place an error is about."""


def point_at(file, text):
    """Return the last line of an error's message: LOOK_AT() of C++, as text."""
    return f"\nlook at {file}: {text}"
