"""The promises of PROMISES.md, each a program with a seed and, in short, a test."""
