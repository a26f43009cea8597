"""Which fields exist: our table, models and notes against the kserve SDK and the Kubernetes client."""

from collections.abc import Iterator

import pytest

from activator_ext.adapters.local.cluster_fields import fields_of
from activator_ext.adapters.local.inference import OLD_FORMS, InferenceService, Predictor, ServingRuntime
from activator_ext.adapters.local.metadata import Metadata
from activator_ext.adapters.local.schema import Strict, honoured, model_of
from scripts.kserve_fields import ROOTS, SDK, TARGET, fields, text


def models(model: type[Strict]) -> Iterator[type[Strict]]:
    """The model and those inside it."""
    yield model
    for annotation in honoured(model).values():
        inner = model_of(annotation)
        if inner is not None:
            yield from models(inner)


OURS = {model.__name__: model for root in (InferenceService, ServingRuntime) for model in models(root)}


def test_the_table_is_what_the_sdk_says() -> None:
    assert TARGET.read_text(encoding="utf-8") == text(SDK), "run: .venv/bin/python -m scripts.kserve_fields"


def test_the_table_is_whole() -> None:
    table = fields(SDK)
    words = {"text", "integer", "boolean", "quantity", "any"}
    used = {kind.strip("[]{}") for keys in table.values() for kind in keys.values()}
    assert used - words <= table.keys()
    assert set(ROOTS) <= table.keys()
    # From three places at different depths, so that a parser that finds nothing does not pass.
    assert table["V1beta1PredictorSpec"]["minReplicas"] == "integer"
    assert table["V1NodeSelectorRequirement"]["values"] == "[text]"
    assert table["V1Container"]["livenessProbe"] == "V1Probe"
    assert len(table) > 150


@pytest.mark.parametrize("name", OURS)
def test_each_key_that_we_honour_explain_or_pass_over_exists(name: str) -> None:
    model = OURS[name]
    known = fields_of(model.kind_in_cluster)
    assert known, f"{name}.kind_in_cluster is none of the SDK's types"
    assert honoured(model).keys() <= known.keys()
    assert model.notes.keys() <= known.keys() - honoured(model).keys() - model.silent
    # What older clusters wrote into metadata is not in today's client.
    assert model.silent - known.keys() <= {"generateName", "selfLink"}
    assert not model.silent & honoured(model).keys()


def test_metadata_gives_no_warning() -> None:
    """What a cluster writes there is passed over, every field of it."""
    assert fields_of("V1ObjectMeta").keys() <= honoured(Metadata).keys() | Metadata.silent


def test_old_forms_are_all_that_the_predictor_has() -> None:
    servers = {key for key, kind in fields_of("V1beta1PredictorSpec").items() if "storageUri" in fields_of(kind)}
    assert servers - honoured(Predictor).keys() == OLD_FORMS
