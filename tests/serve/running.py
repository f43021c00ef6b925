"""A server in a thread of its own."""

from __future__ import annotations

import asyncio
import threading

from ptr_robot.cli.serve import ServeFlags, make_server


class Running:
    """Listens when it is made, until ``stop``."""

    def __init__(self, flags: ServeFlags) -> None:
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._task = self._loop.create_task(make_server(flags).serve(self._set_port))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(30)

    def _set_port(self, port: int) -> None:
        self.port = port
        self._ready.set()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        finally:
            self._loop.close()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(30)
        assert not self._thread.is_alive()
