"""What the programs share: their arguments, and a result that is printed as one line of JSON.

Each runs as `python -m promises.NAME --seed 7 --seconds 300` from the directory `tests`; the same seed gives the same
choices, though not the same interleaving.
"""

import argparse
import json
import random
import sys
import time


def arguments(text: str, **defaults) -> argparse.Namespace:
    """--seed and --seconds, and an option for each default."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--seed", type=int, default=None, help="a random one, which is printed, if not given")
    for name, value in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    found = parser.parse_args()
    if found.seed is None:
        found.seed = random.SystemRandom().randrange(1_000_000)
    return found


# How much longer a program goes on, on a slow machine, until it has done what there is to judge by.
LONGER_SECONDS_MAX = 120


def main(name: str, run, options: argparse.Namespace) -> None:
    """Runs, prints the figures, and ends with 1 where a promise was broken."""
    started = time.time()
    print(f"{name}: seed {options.seed}", flush=True)
    broken: list[str] = []
    try:
        figures = run(**vars(options))
    except AssertionError as error:
        figures, broken = {}, [str(error)]
    figures = {"promise": name, "seed": options.seed, "seconds": round(time.time() - started, 1), **figures}
    if broken:
        figures["broken"] = broken
    print(json.dumps(figures), flush=True)
    sys.exit(1 if broken else 0)
