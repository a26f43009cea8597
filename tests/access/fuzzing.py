"""Fuzzes the API by its own OpenAPI document: schemathesis makes the requests and judges the answers."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.config import SchemathesisConfig
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.generation.case import Case
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

ANSWER_S = 10.0
"""A request that takes longer counts as hanging; the slowest honest one, a preview of a year, takes under 3 s."""


@dataclass
class Report:
    """How many requests of each operation got which status, and the slowest answer in seconds."""

    statuses: dict[str, dict[int, int]] = field(default_factory=dict)
    slowest_s: float = 0.0

    def took(self, operation: str, response: Response, seconds: float) -> None:
        """Count one answer."""
        counts = self.statuses.setdefault(operation, {})
        counts[response.status_code] = counts.get(response.status_code, 0) + 1
        self.slowest_s = max(self.slowest_s, seconds)


def fuzz(url: str, token: str, service: str, *, examples: int, number: int) -> Report:
    """`examples` requests of each operation and kind (those that the document allows, and others), from one seed.

    Half of them name `service`, which is there: the others seldom come further than that it is not.
    What the document allows may be refused all the same (a service that is none, a minute that is past): the one check
    of schemathesis that denies it is left out. Raises what the others find (an answer that is not as documented, any
    500, a request that should have been refused), and AssertionError after `ANSWER_S`.
    """
    load_all_checks()
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", config=SchemathesisConfig())
    report = Report()
    headers = {"Authorization": f"Bearer {token}"}
    chosen = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            judged = _judge(result.ok(), mode, service, headers, report)
            with contextlib.suppress(Unsatisfiable):  # what takes no parameter cannot be asked wrongly
                seed(number)(chosen(judged))()
    return report


def _judge(
    operation: Any, mode: GenerationMode, service: str, headers: dict[str, str], report: Report
) -> Callable[[], None]:
    """The test of one operation with requests of one kind."""

    @given(operation.as_strategy(generation_mode=mode, headers=headers), st.booleans())
    def judged(case: Case[Any], known: bool) -> None:
        if known:
            _name(case, service)
        if known and mode is GenerationMode.POSITIVE:
            _feasible(case, service)
        began = time.monotonic()
        response = case.call(headers=headers, timeout=ANSWER_S)
        report.took(operation.label, response, time.monotonic() - began)
        # Refused it was as too large or too long, which schemathesis does not count among refusals.
        refused = [negative_data_rejection] if response.status_code in (413, 414) else []
        case.validate_response(response, headers=headers, excluded_checks=[positive_data_acceptance, *refused])

    return judged


def _name(case: Case[Any], service: str) -> None:
    """Have the path speak of a service that is there."""
    namespace, _, name = service.partition("/")
    if {"ns", "name"} <= case.path_parameters.keys():
        case.path_parameters.update(ns=namespace, name=name)


def _feasible(case: Case[Any], service: str) -> None:
    """Have a hold ask for what can be had: a replica of a service that is there, for a minute from now."""
    if isinstance(case.body, dict) and "service" in case.body:
        case.body.update(service=service, replicas=1, for_s=60, ready_by=None)
