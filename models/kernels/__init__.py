"""Compiled code on plain arrays: C sources, and the library that is built from them."""
