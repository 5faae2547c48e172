"""The conditions of a lower bound, each proved, checked or assumed, and the tests that check them."""
