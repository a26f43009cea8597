"""Annotations of an InferenceService: ours, and those that decide in a cluster when it runs and without effect here."""

import re
from collections.abc import Mapping

from activator_ext.adapters.local.documents import Document, Path, Where
from activator_ext.adapters.local.findings import Findings, quoted

OURS = "pilotlight.dev/"
ALLOW_PICKLE = "pilotlight.dev/allow-pickle"
"""Names or patterns of pickled weight files that its owner allows to be read, split at commas and spaces."""

PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
"""The same as `runtime.weights.weight_files.PICKLE_SUFFIXES`; a test compares."""
_ANY = re.compile(r"[*?\[\]!-]*")

_RETENTION = "Write coldStartCost in a PrewarmPolicy."
WITHOUT_EFFECT: Mapping[str, str] = {
    "serving.kserve.io/stop": "Take the service out of these files to stop it.",
    "autoscaling.knative.dev/min-scale": "Write minReplicas.",
    "autoscaling.knative.dev/max-scale": "Write maxReplicas.",
    "autoscaling.knative.dev/target": "Write queue.target in a PrewarmPolicy.",
    "autoscaling.knative.dev/scale-to-zero-pod-retention-period": _RETENTION,
    "autoscaling.knative.dev/window": _RETENTION,
}
"""Each with what to do instead."""


def warn(annotations: Mapping[str, str], path: Path, document: Document, findings: Findings) -> None:
    """For the annotations at `path`: those without effect here, and those that look like ours and are none."""
    for name in annotations:
        if name.startswith(OURS) and name != ALLOW_PICKLE:
            findings.error(*document.where((*path, name)), "there is no such annotation", f"Write {ALLOW_PICKLE}.")
        if name in WITHOUT_EFFECT:
            findings.warning(*document.where((*path, name)), "local mode ignores it", WITHOUT_EFFECT[name])


def pickle_patterns(text: str, where: Where, findings: Findings) -> tuple[str, ...]:
    """The files that the value of `ALLOW_PICKLE` allows; says what that means. None with an error."""
    patterns = tuple(dict.fromkeys(filter(None, re.split(r"[,\s]+", text))))
    fix = "Name files, like pytorch_model*.bin."
    if not patterns:
        findings.error(*where, "it names no file", fix)
        return ()
    for pattern in patterns:
        if wrong := _no_pattern(pattern):
            findings.error(*where, f"{quoted(pattern)} {wrong}", fix)
            return ()
    findings.warning(
        *where,
        f"{', '.join(patterns)}: to read pickled weights can run whatever code is in them",
        "Convert them once: pilotlight weights prepare MODEL OUT.",
    )
    return patterns


def _no_pattern(pattern: str) -> str | None:
    stem, dot, suffix = pattern.rpartition(".")
    if "/" in pattern or not pattern.isprintable():
        return "is no file's name"
    if f"{dot}{suffix}" not in PICKLE_SUFFIXES:
        return f"is no pickled file: those end in {', '.join(PICKLE_SUFFIXES)}"
    return "would allow any file" if _ANY.fullmatch(stem) else None
