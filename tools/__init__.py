"""Scripts that the book needs, and nothing that the library needs."""
