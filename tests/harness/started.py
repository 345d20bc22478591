"""Servers and routers started one after the other, and stopped together. It does not know which they are."""


class Started:
    """What `start` keeps is stopped by `stop`, last first; at once if `start` fails."""

    def __init__(self):
        self._things: list = []
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self) -> None:
        raise NotImplementedError

    def kept(self, thing):
        self._things.append(thing)
        return thing

    def stop(self) -> None:
        for thing in reversed(self._things):
            thing.stop()


class Routers(Started):
    """`start` makes `routers`, two at least."""

    @property
    def a(self):
        return self.routers[0].server

    @property
    def b(self):
        return self.routers[1].server
