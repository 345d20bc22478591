"""Nodes that keep their WAL, base backups of them, and servers that are restored from both to a named point, as docs/backup.md says."""

import os
import subprocess
import time
from pathlib import Path

from harness import router, unprivileged
from harness.plain_postgres import PlainPostgres, _environment


class Archived(PlainPostgres):
    """A node with an archive, and a base backup beside it."""

    def __init__(self, name: str):
        self.archive = unprivileged.new_directory(f"{name}-archive")
        self.backup = unprivileged.new_directory(f"{name}-backup") / "data"
        copy = f"test ! -f {self.archive}/%f && cp %p {self.archive}/%f"
        settings = {"wal_level": "replica", "archive_mode": "on", "archive_command": copy, "max_wal_senders": "4"}
        super().__init__(name, router.NODE_SETTINGS | settings)

    def base_backup(self) -> None:
        command = [self.bin / "pg_basebackup", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-D", self.backup, "-X", "stream", "-c", "fast"]
        done = subprocess.run(command, cwd=self.root, env=_environment(self.root), capture_output=True, text=True, **unprivileged.popen_arguments())
        assert done.returncode == 0, done.stderr

    def wait_for_archive(self, lsn: str, seconds_max: float = 90) -> None:
        """Until the WAL up to there is in the archive."""
        with self.server.connect() as direct:
            name = direct.execute("select pg_walfile_name(%s)", (lsn,)).fetchone()[0]
        deadline = time.monotonic() + seconds_max
        while not (self.archive / name).exists():
            assert time.monotonic() < deadline, f"{self.name}: {name} is not archived; there is {sorted(os.listdir(self.archive))}"
            time.sleep(0.05)

    def stop(self) -> None:
        super().stop()
        unprivileged.remove_directory(self.archive)
        unprivileged.remove_directory(self.backup.parent)


class Restored(PlainPostgres):
    """A server of its own, at another port, from a node's base backup and archive, up to a named point."""

    def __init__(self, of: Archived, point: str):
        self.of = of
        recovery = {
            "restore_command": f"cp {of.archive}/%f %p", "recovery_target_name": point, "recovery_target_action": "promote",
            # So much a server must have that replays the WAL of one.
            "max_prepared_transactions": "100", "max_wal_senders": "4",
        }
        super().__init__(f"{of.name}-restored", recovery)
        with self.server.connect() as direct:
            deadline = time.monotonic() + 150
            while direct.execute("select pg_is_in_recovery()").fetchone() == (True,):
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.05)

    def _initdb(self) -> None:
        subprocess.run(["cp", "-a", self.of.backup, self.data], check=True)
        (Path(self.data) / "recovery.signal").touch()
