"""What a lower bound rests on: conditions that are proved, checked or assumed, and the tests that check them."""
