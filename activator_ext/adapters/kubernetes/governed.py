"""Which services are decided on: those that a policy counts for, and those that a hold asks for. Pure.

Any other InferenceService is left alone: a cluster's services become ours one by one, by an object that says so.
"""

from collections.abc import Iterable

from activator_ext.adapters.kubernetes.holds import Holds
from activator_ext.adapters.kubernetes.policies import Assigned
from activator_ext.adapters.kubernetes.served import Served
from activator_ext.adapters.local.documents import Document
from activator_ext.adapters.local.findings import Findings
from activator_ext.adapters.local.policies import combine
from activator_ext.core.model import Config, Policy


def governed(assigned: Assigned, held: Holds, served: Iterable[Served]) -> Config:
    """What the core decides with. A service that only a hold asks for has the core's defaults in its own bounds."""
    wanted = {hold.service for hold in held.holds} - assigned.policies.keys()
    by_holds = {each.id: _bare(each) for each in served if each.id in wanted}
    return Config({**assigned.policies, **by_holds})


def _bare(served: Served) -> Policy:
    return combine(served.id, served.predictor, Document("", {}, {}, {}), None, Findings())
