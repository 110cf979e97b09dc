"""Which computes live, without a look at each: the kernel tells when one ends.

A pidfd of every postmaster that was found alive is in one epoll set; asking that set costs the same for one compute
and for a thousand, as long as none ends.
"""

import resource
import select
from collections.abc import Callable, Iterable
from threading import Lock

from bough.engine.local.computes.postmaster import Postmaster
from bough.engine.local.computes.runs import ComputeRun
from bough.ids import EndpointId

_SHARE = 2  # of the files that this process may open, one in so many is used for this


class PostmasterWatcher:
    """`find` looks for a run's postmaster in the system; what it found is trusted until that process ends."""

    def __init__(self, find: Callable[[ComputeRun], Postmaster | None]) -> None:
        self._find = find
        self._lock = Lock()  # several threads look
        self._epoll = select.epoll()
        self._watched: dict[EndpointId, tuple[int | None, Postmaster]] = {}  # with the pid that the run named
        self._by_pidfd: dict[int, EndpointId] = {}
        self._max_watched = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE

    def find_alive(self, runs: Iterable[ComputeRun]) -> dict[EndpointId, tuple[ComputeRun, int]]:
        """Those of all runs whose postmaster lives, with its pid. What is not among the runs is watched no longer."""
        known = {run.endpoint_id: run for run in runs}
        with self._lock:
            self._drop_ended()
            for gone in self._watched.keys() - known.keys():
                self._drop(gone)
            found = ((run, self._pid(run)) for run in known.values())
            return {run.endpoint_id: (run, pid) for run, pid in found if pid is not None}

    def _pid(self, run: ComputeRun) -> int | None:
        held = self._watched.get(run.endpoint_id)
        if held is not None and held[0] == run.pid:
            return held[1].pid
        if held is not None:  # it was started again
            self._drop(run.endpoint_id)
        live = self._find(run)
        if live is None:
            return None
        if len(self._watched) < self._max_watched:
            self._watch(run, live)
        else:
            live.close()
        return live.pid

    def _drop_ended(self) -> None:
        while ended := self._epoll.poll(0):
            for pidfd, _ in ended:
                self._drop(self._by_pidfd[pidfd])

    def _watch(self, run: ComputeRun, live: Postmaster) -> None:
        self._watched[run.endpoint_id] = (run.pid, live)
        self._by_pidfd[live.pidfd] = run.endpoint_id
        self._epoll.register(live.pidfd, select.EPOLLIN)

    def _drop(self, endpoint: EndpointId) -> None:
        _, live = self._watched.pop(endpoint)
        self._by_pidfd.pop(live.pidfd)
        self._epoll.unregister(live.pidfd)
        live.has_ended()  # which lets the kernel forget a child of ours
        live.close()
