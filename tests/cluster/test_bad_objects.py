"""The table of docs/reference/bad-objects.md: the API server is asked again, and says what the page says."""

from activator_ext.adapters.kubernetes.client import Client
from activator_ext.adapters.local.documents import Document
from activator_ext.adapters.local.findings import Findings
from activator_ext.adapters.local.hold import PrewarmHold
from activator_ext.adapters.local.policy import PrewarmPolicy
from activator_ext.adapters.local.schema import Strict, read
from tests.cluster.bad_objects import CASES, PAGE, Case, ask_all, ready_api, render
from tests.cluster.control_plane import ControlPlane

MODELS: dict[str, type[Strict]] = {"PrewarmPolicy": PrewarmPolicy, "PrewarmHold": PrewarmHold}
KUBERNETES_OWN_WORDS = (
    "in body ",
    "Unsupported value",
    "Duplicate value",
    "Too many",
    "strict decoding",
    "unknown time zone",
    "Required value",
)
"""What the API server says of types, ranges and keys in words of its own."""


async def test_the_table(plane: ControlPlane, namespace: str) -> None:
    async with await Client.connect(plane.kubeconfig) as client:
        await ready_api(client)
        answers = await ask_all(client, namespace)

    assert render(answers) == PAGE.read_text(), "write it anew: python -m tests.cluster.bad_objects"


def local_errors(case: Case) -> list[str]:
    """What reading the object from a file says, but for a serviceRef that another name than `default` needs."""
    findings = Findings()
    item = {"apiVersion": "pilotlight.dev/v1alpha1", "kind": case.kind, "metadata": {"name": "chat"}, "spec": case.spec}
    read(MODELS[case.kind], Document("", item, {}, {}), findings)
    return [f"{each.message}. {each.fix}" for each in findings.sorted() if each.severity == "error"]


def test_check_refuses_what_an_api_server_refuses_and_in_the_same_words() -> None:
    page = PAGE.read_text()
    headings = ("Refused when it is sent: policies", "Refused when it is sent: holds")
    refused = [case for heading in headings for case in CASES[heading] if case.spec and case.then is None]
    assert len(refused) > 35
    for case in refused:
        errors = local_errors(case)
        assert errors, case.shown
        (row,) = (line for line in page.splitlines() if line.startswith(f"| {case.shown} |"))
        if not any(words in row for words in KUBERNETES_OWN_WORDS):
            # cronsim's own word for what is wrong is not CEL's to say.
            assert any(error.replace(" (Bad hour)", "") in row for error in errors), (row, errors)
