"""VESPER: two parties that learn together, with noise on what one sends about its edges."""
