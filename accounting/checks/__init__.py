"""The conditions under which a lower bound holds, and the tests that check them."""
