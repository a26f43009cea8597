"""What Deployment, PodAutoscaler and Revision say where no pod does: pods that were never made, or are gone already.

Never from an InferenceService or its modelStatus: those stay Ready and Loaded while a later start crashes.
"""

import re
from collections.abc import Iterable

from activator_ext.adapters.starts.causes import of_deadline, unschedulable
from activator_ext.adapters.starts.objects import Condition, Workload
from activator_ext.adapters.starts.story import Told
from runtime.contract import Failure, FailureCause

_EXIT_CODE = re.compile(r"ExitCode(\d+)")
_IMAGE = ("ImagePullBackOff", "ErrImagePull", "ContainerMissing", "InvalidImageName")
_AFTER = re.compile(r"^.*?failed with: ", re.DOTALL)


def failures(workloads: Iterable[Workload]) -> tuple[Failure, ...]:
    """Every failure that the service's objects tell of, the oldest first; a pod that tells more is to be preferred."""
    found = (failure for each in workloads for failure in _of(each))
    return tuple(sorted(found, key=lambda failure: failure.at))


def _of(each: Workload) -> Iterable[Failure]:
    makers = {"Deployment": _deployment, "Revision": _revision, "PodAutoscaler": _autoscaler}
    return makers[each.kind](each) if each.kind in makers else ()


def _deployment(each: Workload) -> Iterable[Failure]:
    refused = each.conditions.get("ReplicaFailure")
    if refused is not None and refused.status == "True":
        fix = "give its namespace more quota, or correct what its admission refuses"
        message = f"{each.name} gets no pod ({refused.reason}): {refused.message}; {fix}"
        yield _failure(FailureCause.POD_REFUSED, message, each, refused)
    progress = each.conditions.get("Progressing")
    if progress is not None and progress.reason == "ProgressDeadlineExceeded":
        yield of_deadline(each, progress.at or each.created_at)


def _revision(each: Workload) -> Iterable[Failure]:
    for kind in ("ContainerHealthy", "ResourcesAvailable"):
        found = each.conditions.get(kind)
        if found is None or found.status != "False":
            continue
        code = _EXIT_CODE.fullmatch(found.reason)
        if code is not None:
            said = _AFTER.sub("", found.message).strip().splitlines() or [""]
            message = f"the engine's container of {each.name} exited with code {code.group(1)}: {said[-1]}"
            failure = _failure(FailureCause.EXITED, message, each, found)
            numbers = {**failure.numbers, "exit_code": int(code.group(1))}
            yield failure.model_copy(update={"numbers": numbers, "tail": tuple(said)})
        elif found.reason == "Unschedulable":
            failure = unschedulable(f"of {each.name}", Told(found.at or each.created_at, found.reason, found.message))
            numbers = {**failure.numbers, "object": f"Revision/{each.name}"}
            yield failure.model_copy(update={"numbers": numbers})
        elif found.reason in _IMAGE:
            fix = "correct the name, push the image, or give the pod what its registry asks for"
            message = f"the image of {each.name} cannot be had ({found.reason}): {found.message}; {fix}"
            yield _failure(FailureCause.IMAGE_PULL, message, each, found)
        elif found.reason in ("ProgressDeadlineExceeded", "FailedCreate"):
            deadline = found.reason == "ProgressDeadlineExceeded"
            cause = FailureCause.PROGRESS_DEADLINE if deadline else FailureCause.POD_REFUSED
            yield _failure(cause, f"{each.name} did not come up ({found.reason}): {found.message}", each, found)


def _autoscaler(each: Workload) -> Iterable[Failure]:
    active = each.conditions.get("Active")
    if active is not None and active.status == "False" and active.reason == "TimedOut":
        fix = "its pods tell why; raise serving.knative.dev/progress-deadline if they were only slow"
        yield _failure(
            FailureCause.PROGRESS_DEADLINE, f"{each.name} could not be activated in time: {fix}", each, active
        )


def _failure(cause: FailureCause, message: str, each: Workload, told: Condition) -> Failure:
    numbers: dict[str, float | str] = {"kubernetes": told.reason, "object": f"{each.kind}/{each.name}"}
    return Failure(cause=cause, message=message, at=told.at or each.created_at, numbers=numbers)
