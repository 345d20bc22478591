"""What a test can't do without, and is skipped without, but not where everything has to pass. It does not look for programs."""

import os

import pytest

from . import binaries


def herd_column() -> None:
    try:
        binaries.herd_column()
    except binaries.Missing as missing:
        if os.environ.get("PGHERD_TEST_ALL_CLIENTS") == "1":
            raise
        pytest.skip(str(missing))
