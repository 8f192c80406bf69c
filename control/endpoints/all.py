"""The list of all endpoints, in the order in which the documentation shows them."""

from typing import Final

from regroup.control.endpoints import brokers, faults, groups, live, simulated, topics
from regroup.control.endpoints.endpoint import ControlEndpoint

ENDPOINTS: Final[tuple[ControlEndpoint, ...]] = (
    *groups.ENDPOINTS,
    *brokers.ENDPOINTS,
    *topics.ENDPOINTS,
    *faults.ENDPOINTS,
    *simulated.ENDPOINTS,
    *live.ENDPOINTS,
)
