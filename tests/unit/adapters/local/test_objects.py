"""Objects that are refused, or read with a warning: the exact line, key, text and fix of each."""

import pytest

from tests.unit.adapters.local.build import RUNTIME, Files, policy, service

SERVICE_FINDINGS = {
    "unknown key of the predictor": (
        service(predictor="minReplica: 0\n"),
        "f.yaml:7: error: spec.predictor.minReplica: unknown key. Did you mean minReplicas?",
    ),
    "unknown key, nothing like it": (
        service().replace("spec:\n", "spec:\n  zzz: 1\n"),
        "f.yaml:5: error: spec.zzz: unknown key. Known here: predictor.",
    ),
    "key of KServe without effect": (
        service(predictor="canaryTrafficPercent: 10\n"),
        "f.yaml:7: warning: spec.predictor.canaryTrafficPercent: local mode ignores it. It takes effect in a cluster.",
    ),
    "timeout": (
        service(predictor="timeout: 60\n"),
        "f.yaml:7: warning: spec.predictor.timeout: local mode ignores it. The portal's own limits hold here.",
    ),
    "transformer": (
        service() + "  transformer: {containers: []}\n",
        "f.yaml:10: warning: spec.transformer: local mode ignores it. Requests go to the predictor directly.",
    ),
    "the old form of a predictor": (
        service(predictor="huggingface: {storageUri: x}\n"),
        "f.yaml:7: error: spec.predictor.huggingface: local mode runs vLLM only, and no server of KServe's for"
        " huggingface. Write model: {modelFormat: {name: huggingface}, storageUri} in its place.",
    ),
    "the old form of another framework": (
        service(predictor="sklearn: {storageUri: x}\n"),
        "f.yaml:7: error: spec.predictor.sklearn: local mode runs vLLM only, and no server of KServe's for sklearn."
        " Serve it in a cluster and remove it from these files.",
    ),
    "key of another spelling": (
        service(predictor="min_replicas: 0\n"),
        "f.yaml:7: error: spec.predictor.min_replicas: unknown key. Did you mean minReplicas?",
    ),
    "key at the wrong place": (
        service(predictor="storageUri: pvc://models/tiny\n"),
        "f.yaml:7: error: spec.predictor.storageUri: unknown key. Did you mean spec.predictor.model.storageUri?",
    ),
    "key with a letter that looks like another": (
        service(predictor="minR\u0435plicas: 0\n"),
        "f.yaml:7: error: spec.predictor.minR\u0435plicas: unknown key: it holds U+0435 CYRILLIC SMALL LETTER IE."
        " Did you mean minReplicas?",
    ),
    "unknown key inside what a cluster knows": (
        service(predictor="tolerations: [{key: a, operater: Exists}]\n"),
        "f.yaml:7: warning: spec.predictor.tolerations: local mode ignores it. It takes effect in a cluster.",
        "f.yaml:7: error: spec.predictor.tolerations[0].operater: unknown key. Did you mean operator?",
    ),
    "unknown key in a probe, which gives no warning": (
        service(model="readinessProbe: {httpGet: {path: /, prot: 8080}}\n"),
        "f.yaml:10: error: spec.predictor.model.readinessProbe.httpGet.prot: unknown key. Did you mean port?",
    ),
    "the wrong type inside what a cluster knows": (
        service(predictor="nodeSelector: {gpu: true}\n"),
        "f.yaml:7: warning: spec.predictor.nodeSelector: local mode ignores it. It takes effect in a cluster.",
        "f.yaml:7: error: spec.predictor.nodeSelector.gpu: 'true' is not text. Write it in quotes: \"true\".",
    ),
    "a mapping where a list belongs": (
        service(predictor="volumes: {name: a}\n"),
        "f.yaml:7: error: spec.predictor.volumes: a mapping has the wrong type."
        " Write a list (lines that begin with -).",
        "f.yaml:7: warning: spec.predictor.volumes: local mode ignores it. It takes effect in a cluster.",
    ),
    "an amount that is none": (
        service(model="resources: {limits: {memory: 4GB}}\n"),
        "f.yaml:10: error: spec.predictor.model.resources.limits.memory: '4GB' is not an amount that Kubernetes reads."
        " Write an amount such as 2, 500m or 4Gi.",
    ),
    "canary": (
        service() + "  canary: [{trafficPercent: 10, predictor: {model: {modelFormat: {name: x}}}}]\n",
        "f.yaml:10: warning: spec.canary: local mode ignores it. Requests go to spec.predictor only.",
    ),
    "a variable that no process can be given": (
        service(model="env: [{name: 'VLLM_A=B', value: x}]\n"),
        "f.yaml:10: error: spec.predictor.model.env[0].name: 'VLLM_A=B' is not the name of a variable."
        " Use letters, digits and _ (at most 256).",
    ),
    "no, which is read as false": (
        service(model="env: [{name: VLLM_X, value: no}]\n"),
        "f.yaml:10: error: spec.predictor.model.env[0].value: 'no' is read as false. Write it in quotes: \"no\".",
    ),
    "a container of a predictor beside its model": (
        service(predictor="containers: [{name: kserve-container, image: x}]\n"),
        "f.yaml:7: error: spec.predictor.containers: KServe takes no model beside a container named kserve-container."
        " Remove one of the two.",
    ),
    "an annotation that stops the service in a cluster": (
        service().replace("metadata: {", "metadata: {annotations: {serving.kserve.io/stop: 'true'}, "),
        "f.yaml:3: warning: metadata.annotations.serving.kserve.io/stop: local mode ignores it."
        " Take the service out of these files to stop it.",
    ),
    "an annotation that scales the service in a cluster": (
        service(predictor="annotations: {autoscaling.knative.dev/min-scale: '1'}\n"),
        "f.yaml:7: warning: spec.predictor.annotations.autoscaling.knative.dev/min-scale: local mode ignores it."
        " Write minReplicas.",
    ),
    "pickle that is allowed by name": (
        service().replace("metadata: {", "metadata: {annotations: {pilotlight.dev/allow-pickle: pytorch_model*.bin}, "),
        "f.yaml:3: warning: metadata.annotations.pilotlight.dev/allow-pickle: pytorch_model*.bin: to read pickled"
        " weights can run whatever code is in them. Convert them once: pilotlight weights prepare MODEL OUT.",
    ),
    "pickle that is allowed whatever its name": (
        service(predictor="annotations: {pilotlight.dev/allow-pickle: '*.bin'}\n"),
        "f.yaml:7: error: spec.predictor.annotations.pilotlight.dev/allow-pickle: '*.bin' would allow any file."
        " Name files, like pytorch_model*.bin.",
    ),
    "pickle that is none": (
        service(predictor="annotations: {pilotlight.dev/allow-pickle: 'model.safetensors'}\n"),
        "f.yaml:7: error: spec.predictor.annotations.pilotlight.dev/allow-pickle: 'model.safetensors' is no pickled"
        " file: those end in .bin, .pt, .pth, .ckpt, .pkl. Name files, like pytorch_model*.bin.",
    ),
    "pickle outside the model": (
        service(predictor="annotations: {pilotlight.dev/allow-pickle: '../x.bin'}\n"),
        "f.yaml:7: error: spec.predictor.annotations.pilotlight.dev/allow-pickle: '../x.bin' is no file's name."
        " Name files, like pytorch_model*.bin.",
    ),
    "pickle, and no file": (
        service(predictor="annotations: {pilotlight.dev/allow-pickle: ' ,'}\n"),
        "f.yaml:7: error: spec.predictor.annotations.pilotlight.dev/allow-pickle: it names no file."
        " Name files, like pytorch_model*.bin.",
    ),
    "an annotation that looks like ours": (
        service(predictor="annotations: {pilotlight.dev/allow-pickel: a.bin}\n"),
        "f.yaml:7: error: spec.predictor.annotations.pilotlight.dev/allow-pickel: there is no such annotation."
        " Write pilotlight.dev/allow-pickle.",
    ),
    "an octal number": (
        service(predictor="maxReplicas: 010\n"),
        "f.yaml:7: warning: spec.predictor.maxReplicas: '010' is read as 8, an octal number."
        " Write 8, or remove the leading 0.",
    ),
    "a number to base 60, which is text to a cluster": (
        service(predictor="maxReplicas: 1:30\n"),
        "f.yaml:7: error: spec.predictor.maxReplicas: '1:30' has the wrong type. Write a whole number, without quotes.",
    ),
    "text where a number belongs": (
        service().replace("minReplicas: 0", 'minReplicas: "0"'),
        "f.yaml:6: error: spec.predictor.minReplicas: '0' has the wrong type. Write a whole number, without quotes.",
    ),
    "negative number": (
        service().replace("minReplicas: 0", "minReplicas: -1"),
        "f.yaml:6: error: spec.predictor.minReplicas: '-1' is refused. It should be greater than or equal to 0.",
    ),
    "number where text belongs": (
        service(model="env: [{name: OMP_NUM_THREADS, value: 1}]\n"),
        "f.yaml:10: error: spec.predictor.model.env[0].value: '1' is read as a number. Write it in quotes: \"1\".",
    ),
    "list where a mapping belongs": (
        service().replace("modelFormat: {name: huggingface}", "modelFormat: [huggingface]"),
        "f.yaml:8: error: spec.predictor.model.modelFormat: a list has the wrong type. Write a mapping (key: value).",
    ),
    "mapping where a list belongs": (
        service(model="args: {a: b}\n"),
        "f.yaml:10: error: spec.predictor.model.args: a mapping has the wrong type."
        " Write a list (lines that begin with -).",
    ),
    "required key missing": (
        service().replace("      modelFormat: {name: huggingface}\n", ""),
        "f.yaml:7: error: spec.predictor.model.modelFormat: it is required. Add modelFormat here.",
    ),
    "no name": (
        service().replace("name: chat, ", ""),
        "f.yaml:3: error: metadata.name: it is required. Add name here.",
    ),
    "name that would be a path": (
        service("../../etc"),
        "f.yaml:3: error: metadata.name: '../../etc' is not a name that KServe takes."
        " Use 1 to 63 of a-z, 0-9 and -, with a letter first and a letter or digit last.",
    ),
    "namespace in capitals": (
        service(namespace="Team-A"),
        "f.yaml:3: error: metadata.namespace: 'Team-A' is not a name that Kubernetes takes."
        " Use 1 to 63 of a-z, 0-9 and -, with a letter or digit at both ends.",
    ),
    "name with a line end": (
        service('"chat\\n"'),
        "f.yaml:3: error: metadata.name: 'chat\\n' is not a name that KServe takes: it holds U+000A."
        " Use 1 to 63 of a-z, 0-9 and -, with a letter first and a letter or digit last.",
    ),
    "unknown version of our kind": (
        service().replace("v1beta1", "v1alpha9"),
        "f.yaml:1: error: apiVersion: 'serving.kserve.io/v1alpha9' is not read here."
        " Write apiVersion: serving.kserve.io/v1beta1.",
    ),
    "another group's kind of that name": (
        service().replace("serving.kserve.io/v1beta1", "example.com/v1"),
        "f.yaml:1: error: apiVersion: 'example.com/v1' is not read here. Write apiVersion: serving.kserve.io/v1beta1.",
    ),
    "kind misspelt": (
        service().replace("kind: InferenceService", "kind: InferenceServce"),
        "f.yaml:2: error: kind: unknown kind 'InferenceServce'. Did you mean InferenceService?",
    ),
    "no kind": (
        service().replace("kind: InferenceService\n", ""),
        "f.yaml:1: error: kind: it is required, as text."
        " Write kind, as in apiVersion: serving.kserve.io/v1beta1, kind: InferenceService.",
    ),
    "maxReplicas below minReplicas": (
        service(predictor="maxReplicas: 1\n").replace("minReplicas: 0", "minReplicas: 2"),
        "f.yaml:7: error: spec.predictor.maxReplicas: maxReplicas 1 is less than minReplicas 2."
        " Raise it, or lower minReplicas.",
    ),
    "neither model nor containers": (
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: chat}\n"
        "spec: {predictor: {minReplicas: 0}}\n",
        "f.yaml:4: error: spec.predictor: it has neither model nor containers."
        " Write model: {modelFormat, storageUri} under it.",
    ),
    "progress deadline that is no duration": (
        service().replace(
            "namespace: default", "annotations: {serving.knative.dev/progress-deadline: soon}, namespace: default"
        ),
        "f.yaml:3: error: metadata.annotations.serving.knative.dev/progress-deadline: 'soon' is not a duration."
        " Write one like 45s, 10m, 1h30m or 28d.",
    ),
}


@pytest.mark.parametrize("name", SERVICE_FINDINGS)
def test_inference_service(files: Files, name: str) -> None:
    text, *expected = SERVICE_FINDINGS[name]
    assert files.said(runtime=RUNTIME, f=text) == expected


def test_a_runtime_has_fewer_keys_than_a_pod(files: Files) -> None:
    runtime = RUNTIME.replace("spec:\n", "spec:\n  securityContext: {}\n")
    assert files.said(runtime=runtime, f=service(model="runtime: vllm\n")) == [
        "runtime.yaml:6: error: spec.securityContext: unknown key."
        " A runtime has none: write securityContext under spec.predictor of the InferenceService."
    ]


POLICY_FINDINGS = {
    "unknown key": (
        "coldstartCost: 5m\n",
        "f.yaml:6: error: spec.coldstartCost: unknown key. Did you mean coldStartCost?",
    ),
    "no duration": (
        "coldStartCost: 5 minutes\n",
        "f.yaml:6: error: spec.coldStartCost: '5 minutes' is not a duration. Write one like 45s, 10m, 1h30m or 28d.",
    ),
    "duration as a number": (
        "coldStartCost: 300\n",
        "f.yaml:6: error: spec.coldStartCost: '300' is a duration without a unit."
        " Write one like 300s, 10m, 1h30m or 28d.",
    ),
    "prior of nothing": (
        "leadTime: {prior: 0s}\n",
        "f.yaml:6: error: spec.leadTime.prior: it must be longer than 0. Write one like 45s, 10m, 1h30m or 28d.",
    ),
    "bounds crossed": (
        "bounds: {min: 3, max: 2}\n",
        "f.yaml:6: error: spec.bounds: min 3 is more than max 2. Raise max or lower min.",
    ),
    "both readyBy and start": (
        'schedules:\n- {name: a, until: "0 1 * * *", readyBy: "0 0 * * *", start: "0 0 * * *"}\n',
        "f.yaml:7: error: spec.schedules[0]: set exactly one of readyBy (warm by then) and start (asked for then)."
        " See the example policy.",
    ),
    "cron of four fields": (
        'schedules:\n- name: a\n  readyBy: "0 9 * *"\n  until: "0 18 * * *"\n',
        "f.yaml:8: error: spec.schedules[0].readyBy: readyBy '0 9 * *' has 4 fields, not five."
        " Write minute, hour, day of month, month, day of week, such as '0 9 * * 1-5'.",
    ),
    "unknown zone": (
        'schedules:\n- name: a\n  readyBy: "0 9 * * *"\n  until: "0 18 * * *"\n  timeZone: Europe/Madird\n',
        "f.yaml:10: error: spec.schedules[0].timeZone: timeZone 'Europe/Madird' is no time zone."
        " Did you mean Europe/Madrid or Europe/Vaduz or Europe/Paris?",
    ),
    "schedule without an end": (
        'schedules: [{name: a, readyBy: "0 9 * * *"}]\n',
        "f.yaml:6: error: spec.schedules[0].until: it is required. Add until here.",
    ),
    "two schedules of one name": (
        'schedules:\n- &a {name: a, readyBy: "0 9 * * *", until: "0 18 * * *"}\n- *a\n',
        "f.yaml:4: error: spec: two schedules are named 'a'. Give each schedule a name of its own.",
    ),
    "more tokens than are made": (
        "golden: {maxTokens: 2, tokens: [1, 2, 3]}\n",
        "f.yaml:6: error: spec.golden: 3 tokens are more than maxTokens 2."
        " Write maxTokens: 3 or fewer tokens (at most 64).",
    ),
    "a mode that is none": (
        "forecast: {mode: act}\n",
        "f.yaml:6: error: spec.forecast.mode: 'act' is not one of its values. Did you mean Act?",
    ),
    "a level that is nothing like one": (
        "parking: {level: deep}\n",
        "f.yaml:6: error: spec.parking.level: 'deep' is not one of its values. Write 'Auto', 'L1', 'L2' or 'None'.",
    ),
    "a budget without currency": (
        "objective: {monthlyBudget: '300'}\n",
        "f.yaml:6: error: spec.objective.monthlyBudget: it is not an amount of money."
        " Write amount and currency, as in 300 EUR.",
    ),
    "a ratio above 1": (
        "objective: {readyRatio: 99}\n",
        "f.yaml:6: error: spec.objective.readyRatio: '99' is refused. It should be less than or equal to 1.",
    ),
    "two sources": (
        "queue: {sources: [knative], prometheus: {server: a, query: b}}\n",
        "f.yaml:6: error: spec.queue: sources and prometheus exclude each other. Keep one of them.",
    ),
    "objective": (
        "objective: {readyRatio: 0.9}\n",
        "f.yaml:6: warning: spec.objective: local mode does not act on it."
        " Nothing acts on it in local mode yet; it is checked only.",
    ),
    "forecast": (
        "forecast: {mode: Act}\n",
        "f.yaml:6: warning: spec.forecast: local mode does not act on it."
        " Nothing acts on it in local mode yet; it is checked only.",
    ),
    "parking": (
        "parking: {level: Auto}\n",
        "f.yaml:6: warning: spec.parking: local mode does not act on it."
        " Nothing parks in local mode yet: an idle replica is stopped.",
    ),
    "sources": (
        "queue:\n  target: 3\n  sources: [knative]\n",
        "f.yaml:8: warning: spec.queue.sources: local mode does not act on it."
        " The portal's own queue is the source in local mode; this takes effect in a cluster.",
    ),
}


@pytest.mark.parametrize(("spec", "expected"), POLICY_FINDINGS.values(), ids=POLICY_FINDINGS.keys())
def test_prewarm_policy(files: Files, spec: str, expected: str) -> None:
    assert files.said(runtime=RUNTIME, service=service(), f=policy(spec)) == [expected]


def test_every_error_of_every_file_at_once(files: Files) -> None:
    said = files.said(
        a=service("Bad", predictor="zzz: 1\n"),
        b=policy("coldStartCost: never\nbounds: {min: -1}\n"),
        c=b"x: [\n",
    )
    assert [line.partition(": error: ")[::2] for line in said] == [
        (
            "a.yaml:3",
            "metadata.name: 'Bad' is not a name that KServe takes."
            " Use 1 to 63 of a-z, 0-9 and -, with a letter first and a letter or digit last.",
        ),
        (
            "a.yaml:7",
            "spec.predictor.zzz: unknown key. Known here: annotations, containerConcurrency, containers,"
            " maxReplicas, minReplicas, model.",
        ),
        ("b.yaml:6", "spec.coldStartCost: 'never' is not a duration. Write one like 45s, 10m, 1h30m or 28d."),
        ("b.yaml:7", "spec.bounds.min: '-1' is refused. It should be greater than or equal to 0."),
        (
            "c.yaml:2",
            "not valid YAML: expected the node content, but found '<stream end>'."
            " Correct the YAML here or on the line above.",
        ),
    ]


def test_a_null_is_an_absent_key(files: Files) -> None:
    loaded = files.load(runtime=RUNTIME, f=service(predictor="maxReplicas:\ntimeout:\n", model="args:\nenv: null\n"))
    assert loaded.findings == ()
    assert len(loaded.services) == 1


def test_what_a_cluster_adds_is_passed_over(files: Files) -> None:
    exported = service(predictor="labels: {a: b}\n", model="protocolVersion: v2\nports: [{containerPort: 8080}]\n")
    exported = exported.replace("{name: chat", "{uid: x, generation: 1, labels: {a: b}, managedFields: [], name: chat")
    assert files.said(runtime=RUNTIME, f=exported + "status: {url: http://x}\n") == []
