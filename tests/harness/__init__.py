"""What every end-to-end test stands on: servers to talk to, and nothing about what is said to them."""
