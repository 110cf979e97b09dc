"""A control plane in memory that returns what the test has set."""

from collections.abc import Sequence
from datetime import datetime

from bough.domain.gateway_protocol import Access, ComputeAddress
from bough.domain.gateway_reports import ActivityReport
from bough.gateway.control_plane import ControlUnavailable
from bough.ids import EndpointId

ADDRESS = ComputeAddress(host="/run/compute", port=5432)


def make_access(verifier: str = "", *, is_known: bool = True, valid_until: datetime | None = None) -> Access:
    return Access(verifier=verifier, is_known=is_known, valid_until=valid_until, allowed_networks=None, rejection=None)


class FakeControlPlane:
    def __init__(self) -> None:
        self.is_unavailable = False
        self.access_reply = make_access()
        self.calls: list[tuple[str, ...]] = []
        self.reports: list[ActivityReport] = []
        self.loses_replies = False
        self.endpoints_to_drop: list[EndpointId] = []

    async def get_access(self, endpoint: EndpointId, role: str) -> Access:
        self._record_call("access", endpoint, role)
        return self.access_reply

    async def wake(self, endpoint: EndpointId) -> ComputeAddress:
        self._record_call("wake", endpoint)
        return ADDRESS

    async def report(self, report: ActivityReport) -> Sequence[EndpointId]:
        self._record_call("report")
        self.reports.append(report)
        if self.loses_replies:
            raise ControlUnavailable("the reply was lost")
        return self.endpoints_to_drop

    def _record_call(self, *call: str) -> None:
        self.calls.append(call)
        if self.is_unavailable:
            raise ControlUnavailable("unavailable")
