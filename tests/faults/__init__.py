"""Bad input, and servers and clients that go away."""
