"""Other libraries' models with this library's mechanisms; each needs its own extra."""
