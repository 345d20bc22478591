"""The commands of `herd` that measure, run as a user would."""
