"""Track which computes are alive without checking each process.

A pidfd of every live postmaster is in one epoll set. Polling that set costs the same for one compute and for a
thousand, as long as none ends.
"""

import resource
import select
from collections.abc import Callable, Iterable
from threading import Lock

from bough.engine.local.computes.postmaster_process import Postmaster
from bough.engine.local.computes.runs import ComputeRun
from bough.ids import EndpointId

_OPEN_FILES_DIVISOR = 2  # use at most half of the files that this process may open


class PostmasterWatcher:
    """`find` searches the system for the postmaster of a run. Its result is trusted until that process ends."""

    def __init__(self, find: Callable[[ComputeRun], Postmaster | None]) -> None:
        self._find = find
        self._lock = Lock()  # several threads call find_alive
        self._epoll = select.epoll()
        self._watched: dict[EndpointId, tuple[int | None, Postmaster]] = {}  # with the pid in the run
        self._by_pidfd: dict[int, EndpointId] = {}
        self._max_watched = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _OPEN_FILES_DIVISOR

    def find_alive(self, runs: Iterable[ComputeRun]) -> dict[EndpointId, tuple[ComputeRun, int]]:
        """Return the runs whose postmaster is alive, with its pid. Stop watching computes that are not among `runs`."""
        known = {run.endpoint_id: run for run in runs}
        with self._lock:
            self._drop_ended()
            for gone in self._watched.keys() - known.keys():
                self._drop(gone)
            pids = ((run, self._find_pid(run)) for run in known.values())
            return {run.endpoint_id: (run, pid) for run, pid in pids if pid is not None}

    def _find_pid(self, run: ComputeRun) -> int | None:
        watched = self._watched.get(run.endpoint_id)
        if watched is not None and watched[0] == run.pid:
            return watched[1].pid
        if watched is not None:  # the compute was restarted
            self._drop(run.endpoint_id)
        postmaster = self._find(run)
        if postmaster is None:
            return None
        if len(self._watched) < self._max_watched:
            self._watch(run, postmaster)
        else:
            postmaster.close()
        return postmaster.pid

    def _drop_ended(self) -> None:
        while ended := self._epoll.poll(0):
            for pidfd, _ in ended:
                self._drop(self._by_pidfd[pidfd])

    def _watch(self, run: ComputeRun, postmaster: Postmaster) -> None:
        self._watched[run.endpoint_id] = (run.pid, postmaster)
        self._by_pidfd[postmaster.pidfd] = run.endpoint_id
        self._epoll.register(postmaster.pidfd, select.EPOLLIN)

    def _drop(self, endpoint: EndpointId) -> None:
        _, postmaster = self._watched.pop(endpoint)
        self._by_pidfd.pop(postmaster.pidfd)
        self._epoll.unregister(postmaster.pidfd)
        postmaster.has_ended()  # reaps a child process
        postmaster.close()
