"""A standby of a server that runs: pg_basebackup and streaming replication, as an operator makes it. Who reads it is not known here."""

import signal
import subprocess
import time

from . import processes, unprivileged
from .plain_postgres import PlainPostgres, _environment


class Standby(PlainPostgres):
    """It streams from `primary`, asynchronously."""

    def __init__(self, primary: PlainPostgres, name: str = "standby", settings: dict[str, str] | None = None):
        self.primary = primary
        super().__init__(name, primary.settings | (settings or {}), bin_directory=primary.bin_directory)

    def _initdb(self) -> None:
        command = [
            self.bin / "pg_basebackup", "-D", self.data, "-R", "-X", "stream", "-c", "fast", "-d",
            f"host=127.0.0.1 port={self.primary.port} user=postgres",
        ]
        done = subprocess.run(
            command, cwd=self.root, env=_environment(self.root), capture_output=True, text=True, **unprivileged.popen_arguments()
        )
        if done.returncode != 0:
            raise RuntimeError(f"pg_basebackup failed:\n{done.stdout}{done.stderr}")

    def start(self) -> None:
        """Again, on the same port."""
        if self.process is None:
            assert self._try_start(), self.log()[-2000:]

    def kill(self) -> None:
        """SIGKILL to all its processes, as when the machine stops."""
        processes.kill_family(self.process.pid)
        self.process.wait(20)
        self.process = None
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def hang(self) -> None:
        """Connections stay open, and nothing answers, until `go_on`."""
        processes.freeze_family(self.process.pid)

    def go_on(self) -> None:
        for process_id in [self.process.pid, *processes.children(self.process.pid)]:
            processes.signal(process_id, signal.SIGCONT)

    def pause(self) -> None:
        """What comes is received and not applied."""
        self.server.run("select pg_wal_replay_pause()")
        with self.server.connect() as connection:
            while connection.execute("select pg_get_wal_replay_pause_state()").fetchone() != ("paused",):
                time.sleep(0.01)

    def resume(self) -> None:
        with self.server.connect() as connection:
            if connection.execute("select pg_is_in_recovery()").fetchone() == (True,):
                connection.execute("select pg_wal_replay_resume()")

    def stop(self) -> None:
        if self.process is not None:
            self.go_on()
        super().stop()
