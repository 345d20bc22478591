"""Makes the private venv that building, testing and `herd up` use. Run again, it does what is left to do.

    python3 scripts/make_venv.py .venv scripts/requirements.txt

Works where Python was packaged without ensurepip, and where the system's packages are marked as externally managed.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 10)


def say(text: str) -> None:
    print(f"venv: {text}", flush=True)


def fail(text: str) -> None:
    sys.exit(f"venv: {text}")


def works(python: Path) -> bool:
    """Whether a venv's interpreter runs; it does not when the venv was moved or its Python was removed."""
    if not python.exists():
        return False
    return subprocess.run([python, "-c", ""], stderr=subprocess.DEVNULL).returncode == 0


def create(venv: Path) -> None:
    """An empty venv. With pip if this Python can; a bare one is enough as long as some pip can fill it."""
    shutil.rmtree(venv, ignore_errors=True)
    made = subprocess.run([sys.executable, "-m", "venv", venv], capture_output=True, text=True)
    if made.returncode == 0:
        return
    say("this Python lacks ensurepip; making a venv without pip of its own")
    shutil.rmtree(venv, ignore_errors=True)
    made = subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], capture_output=True, text=True)
    if made.returncode != 0:
        fail(f"cannot make a venv in {venv} (on Debian, install python3-venv):\n{made.stdout}{made.stderr}")


def pip_command(venv: Path) -> list:
    """pip install, into the venv: the venv's own pip, or else the one of the Python that runs this."""
    own = [venv / "bin" / "python", "-m", "pip"]
    if subprocess.run([*own, "--version"], capture_output=True).returncode == 0:
        return [*own, "install"]
    outer = [sys.executable, "-m", "pip"]
    if subprocess.run([*outer, "--version"], capture_output=True).returncode != 0:
        fail("neither the venv nor this Python has pip: install python3-pip (or python3-venv), and try again")
    site = venv / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    return [*outer, "install", "--upgrade", "--target", site]


def main() -> None:
    if len(sys.argv) != 3:
        fail("usage: make_venv.py FOLDER REQUIREMENTS")
    if sys.version_info < OLDEST:
        fail(f"Python {OLDEST[0]}.{OLDEST[1]} or newer is needed, and this is {sys.version.split()[0]}")
    venv, requirements = Path(sys.argv[1]).absolute(), Path(sys.argv[2])
    stamp = venv / "requirements.stamp"
    wanted = f"{hashlib.sha256(requirements.read_bytes()).hexdigest()} {sys.version_info.major}.{sys.version_info.minor}"
    python = venv / "bin" / "python"
    alive = works(python)
    if alive and stamp.exists() and stamp.read_text() == wanted:
        return
    if not alive:
        say(f"making {os.path.relpath(venv)}")
        create(venv)
    say(f"installing {os.path.relpath(requirements)}")
    stamp.unlink(missing_ok=True)
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    if os.geteuid() == 0:
        quiet += ["--root-user-action", "ignore"]
    done = subprocess.run([*pip_command(venv), *quiet, "-r", requirements])
    if done.returncode != 0:
        fail("pip failed (see above); run `make venv` again when that is mended")
    stamp.write_text(wanted)
    say("ready")


if __name__ == "__main__":
    main()
