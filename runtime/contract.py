"""What host, portal and controller say to one another.

The only module of `runtime` that `activator_ext` imports. Everything on a wire between our processes is one of these
models, as JSON. Unknown fields are ignored, so that a newer peer can say more; instants are aware UTC.

Who speaks to whom (locally each arrow is a unix socket in the state directory, mode 0600):

    controller → host      PUT  /v1/host/lease                  Lease → HostView
                           GET  /v1/host                        → HostView
                           PUT  /v1/services/{ns}/{name}        ServiceOrder → 204
                           DELETE /v1/services/{ns}/{name}      → 204 (replicas drain, the order is forgotten)
                           POST /v1/host/stop                   Stop → 202; drains everything and exits
    portal → host          POST /v1/services/{ns}/{name}/wake   → HostView (only when the controller is gone)
    host → controller      POST /v1/internal/events             HostEvents → 204 (a nudge: the truth is HostView)
    portal → controller    GET  /v1/routes                      → SSE: `snapshot` RouteTable, `delta` RouteDelta
                           POST /v1/internal/portal             PortalReport → 204
    pod → controller       POST /v1/internal/pod                PodReport → 204, over HTTPS with the pod's own token
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field


class Warmth(StrEnum):
    """How ready a replica is to answer (the same words as `activator_ext.core.model.Warmth`; a test compares)."""

    COLD = "cold"
    PARKED_L2 = "parked-l2"
    PARKED_L1 = "parked-l1"
    WARMING = "warming"
    WARM = "warm"
    BUSY = "busy"
    FAILED = "failed"
    UNKNOWN = "unknown"


class StartKind(StrEnum):
    """From where a start begins (the same words as `activator_ext.core.model.StartKind`; a test compares)."""

    NEW_NODE = "new-node"
    COLD_NODE = "cold-node"
    CACHED_NODE = "cached-node"
    FORK = "fork"
    SNAPSHOT = "snapshot"
    WAKE_L2 = "wake-l2"
    WAKE_L1 = "wake-l1"


class Mark(StrEnum):
    """The instants of a start, in this order; each is reached once or not at all."""

    T0 = "T0"  # start asked for
    T1 = "T1"  # scheduled: a host took the order
    T2 = "T2"  # image here, model being prepared
    T3 = "T3"  # model proven whole
    T4 = "T4"  # engine process begun
    T5 = "T5"  # weights in place
    T6 = "T6"  # compiled
    T7 = "T7"  # graphs captured, warmed up
    T8 = "T8"  # golden prompt answered
    T9 = "T9"  # admitted to traffic


class Stage(StrEnum):
    """The closed list of named parts of a start, in the order in which they begin (docs/reference/stages.md)."""

    ORDER = "order"
    MODEL_CHECK = "model_check"
    CACHE_RESTORE = "cache_restore"
    SNAPSHOT_RESTORE = "snapshot_restore"
    FAILED_LOADER = "failed_loader"
    FORK = "fork"
    INTERPRETER_API = "interpreter_api"
    IMPORTS_API = "imports_api"
    CONFIGURATION = "configuration"
    INTERPRETER_CORE = "interpreter_core"
    IMPORTS_CORE = "imports_core"
    ENGINE_CONSTRUCTION = "engine_construction"
    INTERPRETER_WORKER = "interpreter_worker"
    IMPORTS_WORKER = "imports_worker"
    DEVICE_INIT = "device_init"
    MODEL_CONSTRUCTION = "model_construction"
    WEIGHT_LOAD = "weight_load"
    WEIGHT_CONVERT = "weight_convert"
    MEMORY_PROFILE = "memory_profile"
    COMPILE = "compile"
    WARM_UP = "warm_up"
    KV_CACHE = "kv_cache"
    GRAPH_CAPTURE = "graph_capture"
    ENGINE_READY = "engine_ready"
    SERVER = "server"
    READY_PROBE = "ready_probe"
    GOLDEN_PROMPT = "golden_prompt"


class PodStage(StrEnum):
    """The named parts of a pod's start that come before its engine's own stages; the API server tells of them."""

    POD_CREATE = "pod_create"
    NODE_PROVISION = "node_provision"
    SCHEDULE = "schedule"
    POD_SETUP = "pod_setup"
    IMAGE_PULL = "image_pull"
    INIT_CONTAINERS = "init_containers"
    CONTAINER_START = "container_start"
    RESTART_WAIT = "restart_wait"


class Verdict(StrEnum):
    """What an engine did with the compile cache that its start was given (runtime/cache/verdict.py)."""

    USED = "used"
    PARTLY = "partly"
    RECOMPILED = "recompiled"
    ABSENT = "absent"
    QUARANTINED = "quarantined"


class FailureCause(StrEnum):
    """Why a start failed or a running engine ended; `Failure.numbers` carries what belongs to it.

    docs/reference/failures.md says of each how it is told and what follows.
    """

    MODEL_MISSING = "model-missing"
    MODEL_INCOMPLETE = "model-incomplete"
    UNSUPPORTED_MODEL = "unsupported-model"
    BAD_ARGUMENTS = "bad-arguments"
    SPAWN_FAILED = "spawn-failed"
    PORT_TAKEN = "port-taken"
    NO_COMPILER = "no-compiler"
    NO_MEMORY = "no-memory"
    EXITED = "exited"
    KILLED = "killed"
    STUCK = "stuck"
    START_TIMEOUT = "start-timeout"
    NOT_SERVED = "not-served"
    GOLDEN_FAILED = "golden-failed"
    GOLDEN_WRONG = "golden-wrong"
    DIED_AFTER_READY = "died-after-ready"
    FROZEN = "frozen"
    HOST_LOST = "host-lost"
    # Of a pod, told by the API server.
    UNSCHEDULABLE = "unschedulable"
    IMAGE_PULL = "image-pull"
    POD_REFUSED = "pod-refused"
    POD_CONFIG = "pod-config"
    INIT_FAILED = "init-failed"
    PROBE_FAILED = "probe-failed"
    EVICTED = "evicted"
    NODE_LOST = "node-lost"
    PROGRESS_DEADLINE = "progress-deadline"


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Failure(_Wire):
    """One failed start or ended engine: the cause, a sentence that says what to do, its numbers.

    `permanent`: the same spec and files fail again, so a new try is not worth a wait. `tail`: the last lines of the
    engine's log, none where no engine had begun.
    """

    cause: FailureCause
    message: str
    at: AwareDatetime
    numbers: dict[str, float | str] = Field(default_factory=dict)
    permanent: bool = False
    tail: tuple[str, ...] = ()


class Golden(_Wire):
    """A prompt whose answer at temperature 0 proves that these weights answer.

    `tokens` None: learned from the first proven start of the same model; `learned` holds what earlier starts have
    taught, by the golden key of those starts.
    """

    prompt: str = "Pilotlight asks: what do you answer?"
    max_tokens: Annotated[int, Field(ge=1, le=64)] = 8
    tokens: tuple[int, ...] | None = None
    learned: dict[str, tuple[int, ...]] = Field(default_factory=dict)


PICKLE_PATTERN = r"^[^/\s]*[A-Za-z0-9][^/\s]*\.(bin|pt|pth|ckpt|pkl)$"
"""A file name, or a pattern of some: never one for any file."""


class EngineSpec(_Wire):
    """All that a host needs to start one engine of a service.

    `model` is an absolute directory on the host (or a URL that vLLM streams from itself). `args` are vLLM arguments
    without the model, host, port and served names, which the launcher sets. `env` is already allow-listed.
    A service's name becomes a path at the host, hence the pattern. `drain_timeout_s` bounds how long a replica that
    is no longer wanted may finish its running answers; long generations take minutes, and a scale-down cuts none.
    `pickle`: names or patterns of pickled weight files that the owner allows; everything else pickled is refused.
    """

    service: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")]
    served_names: tuple[str, ...]
    model: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    platform: Literal["cpu", "cuda"] = "cpu"
    pickle: tuple[Annotated[str, Field(pattern=PICKLE_PATTERN)], ...] = ()
    golden: Golden = Golden()
    start_timeout_s: float = 1800.0
    drain_timeout_s: float = 900.0


class StageTime(_Wire):
    """One named part of a start: when it began, how long it took, from what evidence.

    `evidence`: `log` (engine log lines), `marker` (our plugin in the engine's processes), `span` (vLLM's own
    OpenTelemetry span) or `host` (timed by the host). `span_s` is the duration of the engine's matching span where
    one exists, to check the stage against. `pid` the process it ran in.
    """

    stage: Stage
    begun_at: AwareDatetime
    elapsed_ms: float
    evidence: Literal["log", "marker", "span", "host"]
    span_s: float | None = None
    bytes: int | None = None
    pid: int | None = None


class PodStageTime(_Wire):
    """One part of a pod's start before its engine's, as the API server tells of it: mostly in whole seconds."""

    stage: PodStage
    begun_at: AwareDatetime
    elapsed_ms: float
    evidence: Literal["cluster"] = "cluster"
    span_s: None = None
    bytes: int | None = None


class CacheUse(_Wire):
    """The compile cache of one start. `key`: its fingerprint's, None where there is none (`note` says why).

    `origin`: `own` (an earlier start of this replica proved it), else the store that the bundle `digest` came from,
    None where the start began with nothing. `verdict` and what it rests on come with the golden prompt; `compile_s` is
    how long the stage `compile` took. `published`: the digest of the bundle that was made of this start's cache.
    """

    key: str | None = None
    origin: str | None = None
    digest: str | None = None
    size_bytes: int | None = None
    verdict: Verdict | None = None
    evidence: str = ""
    compile_s: float | None = None
    published: str | None = None
    note: str = ""


class WeightsTry(_Wire):
    """One way by which a start tried to get its weights, in the words of docs/concepts/weights.md.

    `why`: why it, and in this place. `cause`, `stage` and `failed` say what it came to where it failed: another way
    followed in a fresh process, or the start failed with it.
    """

    loader: str
    source: str
    why: str
    cause: FailureCause | None = None
    stage: Stage | None = None
    failed: str | None = None


class WeightsUse(_Wire):
    """How one start came by its weights. `tries`: the last one is what the engine has, unless it failed.

    `notes`: what a look at the machine found that stops no start. `peer`: what ModelExpress says of where the weights
    came from, with `fell_back` the number of ranks that did not get theirs from a peer; None where it was not asked.
    """

    tries: tuple[WeightsTry, ...] = ()
    notes: tuple[str, ...] = ()
    peer: str | None = None
    fell_back: int | None = None


class PodTimes(_Wire):
    """What the cluster says of the pod of one start, beside T0–T9. A time of a run before this one is not here.

    `restart`: how often its engine's container had been started before. `teaches` false: its T9 is not known well
    enough for a lead time. `ready_at`: Kubernetes called it Ready, which may be later than its first answer,
    `first_success_at`. `image_bytes`: what was pulled, None where the node had it.
    `leaving_at`: its deletion was asked for; until `gone_at` it drains and keeps its GPUs. `skew_s`: by so much the
    clocks of node, controller and control plane disagreed about the order of marks; those were moved to keep it.
    """

    uid: str
    name: str
    restart: int = 0
    teaches: bool = True
    revision: str | None = None
    node: str | None = None
    image: str = ""
    image_bytes: int | None = None
    created_at: AwareDatetime
    ready_at: AwareDatetime | None = None
    first_success_at: AwareDatetime | None = None
    leaving_at: AwareDatetime | None = None
    gone_at: AwareDatetime | None = None
    skew_s: float | None = None


class StartRecord(_Wire):
    """One start of one replica, whole or under way. `id` is `host-generation`, or of a pod `uid-restart`.

    `ready_s` is T0 → T9; `attributed` the share of it (0–1) that named stages cover, overlaps counted once.
    `warmed_at`: the second level of readiness, every shape computed once; a mark of its own, after T9.
    `golden_key` names the weights, arguments and versions whose golden answer `golden_tokens` is.
    `outcome` None: under way; `recycled`: it compiled, and the start that follows at once has its code and the memory
    that compiling took. A failed start has no `ready_s` and is no sample of stage times. `ended`: how an engine
    that had become ready ended; None while it serves, and where it was stopped on purpose. `forked`: the engine
    is a fork of a process that had imported vLLM; `spawned_because`: why it is none where one was asked for.
    `restored`: the image that the engine came from; `not_restored`: why it came from none where images are asked for.
    `shapes`: which sizes its CUDA graphs have, and why. `pod`: set where the replica is a pod.
    """

    id: str
    service: str
    replica: str
    kind: StartKind
    marks: dict[Mark, AwareDatetime] = Field(default_factory=dict)
    stages: tuple[StageTime | PodStageTime, ...] = ()
    outcome: Literal["ready", "failed", "cancelled", "recycled"] | None = None
    failure: Failure | None = None
    ended: Failure | None = None
    ready_s: float | None = None
    attributed: float | None = None
    model_digest: str | None = None
    golden_key: str | None = None
    golden_tokens: tuple[int, ...] | None = None
    warmed_at: AwareDatetime | None = None
    why: str = ""
    forked: bool = False
    spawned_because: str | None = None
    restored: str | None = None
    not_restored: str | None = None
    shapes: str = ""
    cache: CacheUse = CacheUse()
    weights: WeightsUse = WeightsUse()
    pod: PodTimes | None = None


class ReplicaView(_Wire):
    """One replica as its host sees it. `url` is where the engine answers, set from T4 on. `draining`: no new requests.

    `stage` is the one under way while warming. `failure` is the last one and stays after the replica is gone.
    """

    id: str
    service: str
    warmth: Warmth
    since: AwareDatetime
    start_id: str
    url: str | None = None
    stage: Stage | None = None
    ready_at: AwareDatetime | None = None
    draining: bool = False
    stale: bool = False
    pid: int | None = None


class ServiceView(_Wire):
    """One ordered service at a host: its replicas, and what stands in the way of more.

    `replicas_wanted` is what the host brings the service to by itself: as ordered, and after a failure no more than is
    left, until it is ordered (or a portal wakes it) again. So nothing that fails is tried again without demand.
    `next_kind`: how a start from zero would begin. `retry_at`: the back-off after a failure ends then.
    """

    service: str
    replicas_wanted: int
    replicas: tuple[ReplicaView, ...] = ()
    next_kind: StartKind = StartKind.COLD_NODE
    last_failure: Failure | None = None
    retry_at: AwareDatetime | None = None


class HostView(_Wire):
    """The whole truth of a host. `revision` grows with each change; equal revisions mean equal views."""

    host: str
    version: str
    revision: int
    lease_until: AwareDatetime | None
    stopping: bool = False
    services: tuple[ServiceView, ...] = ()
    starts: tuple[StartRecord, ...] = ()


class Lease(_Wire):
    """The controller is alive: live on for `seconds`. Without a new lease the host drains and stops.

    `events_socket` is the unix socket to post `HostEvents` to.
    """

    seconds: float = 60.0
    events_socket: str | None = None


STUCK_AFTER_S = 300.0
"""How long a start may show no sign of life while nothing is known of earlier ones."""


class ServiceOrder(_Wire):
    """Desired state of one service at a host; idempotent. `asked_at` becomes T0 of the starts that it causes.

    `stuck_after_s`: a start that shows no sign of life for so long (no new stage, no log line, neither CPU nor disk
    used) has failed. `requests_wait`: whether requests wait for the service now; None: nobody can tell.
    """

    spec: EngineSpec
    replicas: Annotated[int, Field(ge=0)]
    asked_at: AwareDatetime
    why: str = ""
    stuck_after_s: Annotated[float, Field(gt=0)] = STUCK_AFTER_S
    requests_wait: bool | None = None


class Stop(_Wire):
    """Drain every engine within `drain_s`, then end the host."""

    drain_s: float = 60.0


class StageEvent(_Wire):
    """One finished stage, as the JSON line `{"stage": …, "elapsed_ms": …, "bytes": …}` that the host also prints."""

    service: str
    replica: str
    start_id: str
    stage: Stage
    elapsed_ms: float
    bytes: int | None = None
    at: AwareDatetime


class HostEvents(_Wire):
    """Something changed at a host. Lost ones cost nothing: the controller reads `HostView`."""

    host: str
    revision: int
    stages: tuple[StageEvent, ...] = ()


class PodReport(_Wire):
    """What an engine's own pod says of its starts, whole: `starts` are the newest, the one under way last.

    Whose pod it is follows from the token that it comes with, never from what it says. `host` names the process, so
    that a restarted container is another one; `revision` grows with each report of it. `stage` is the one under way.
    """

    host: str
    revision: int
    stage: Stage | None = None
    starts: Annotated[tuple[StartRecord, ...], Field(max_length=32)] = ()


class Endpoint(_Wire):
    """One engine that may be given requests."""

    replica: str
    url: str


class Waiting(_Wire):
    """The limits of one service's waiting room."""

    max_requests: int = 200
    max_bytes: int = 64 * 2**20
    timeout_s: float = 900.0


class Route(_Wire):
    """All that the portal needs for one service.

    `names` are the values of `model` that mean it (full name, unique name, unique served names). `stage` and `eta_at`
    tell a waiting client how far the start is. `failure` set: answer waiting requests with it now; `retry_at` says
    when a new try is due. `host_socket` lets the portal ask the host for a wake when the controller is gone.
    """

    service: str
    names: tuple[str, ...]
    warmth: Warmth
    endpoints: tuple[Endpoint, ...] = ()
    stage: Stage | None = None
    eta_at: AwareDatetime | None = None
    failure: Failure | None = None
    retry_at: AwareDatetime | None = None
    host_socket: str | None = None
    waiting: Waiting = Waiting()
    created_at: AwareDatetime


class RouteTable(_Wire):
    """Snapshot: every route. `version` grows by one with each table or delta of one controller process."""

    version: int
    routes: tuple[Route, ...]


class RouteDelta(_Wire):
    """What changed since `version` − 1."""

    version: int
    changed: tuple[Route, ...] = ()
    removed: tuple[str, ...] = ()


class ServiceLoad(_Wire):
    """Requests of one service at the portal. `last_activity_at`: latest instant at which one waited or ran."""

    service: str
    waiting: int = 0
    running: int = 0
    oldest_waiting_at: AwareDatetime | None = None
    last_activity_at: AwareDatetime | None = None


class PortalReport(_Wire):
    """The portal's queue: posted at each 0 ↔ n change of who waits, soon after one of what runs, and once a second.

    While nothing waits or runs, only a full report is posted now and then.
    """

    portal: str
    at: AwareDatetime
    services: tuple[ServiceLoad, ...] = ()


def replica_id(service: str, ordinal: int) -> str:
    """`namespace/name/ordinal`."""
    return f"{service}/{ordinal}"


def ready_seconds(marks: dict[Mark, datetime]) -> float | None:
    """T0 → T9 in seconds, None unless both were reached."""
    if Mark.T0 not in marks or Mark.T9 not in marks:
        return None
    return (marks[Mark.T9] - marks[Mark.T0]).total_seconds()
