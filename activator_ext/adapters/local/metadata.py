"""Names and metadata of Kubernetes objects. Names become path components and must be harmless as such."""

import re
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from activator_ext.adapters.local.findings import quoted
from activator_ext.adapters.local.schema import Strict
from activator_ext.adapters.local.wording import odd_characters

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SERVICE = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


def is_label(text: str) -> bool:
    """A DNS-1123 label: what Kubernetes asks of a namespace, and of a claim as a path component."""
    return _LABEL.fullmatch(text) is not None


def _label(text: str) -> str:
    if not is_label(text):
        fix = "Use 1 to 63 of a-z, 0-9 and -, with a letter or digit at both ends."
        raise ValueError(_no_name(text, "Kubernetes"), fix)
    return text


def _service(text: str) -> str:
    if not _SERVICE.fullmatch(text):
        fix = "Use 1 to 63 of a-z, 0-9 and -, with a letter first and a letter or digit last."
        raise ValueError(_no_name(text, "KServe"), fix)
    return text


def _no_name(text: str, taker: str) -> str:
    odd = odd_characters(text)
    return f"{quoted(text)} is not a name that {taker} takes" + (f": it holds {odd}" if odd else "")


def _subdomain(text: str) -> str:
    if len(text) > 253 or not _SUBDOMAIN.fullmatch(text):
        fix = "Use 1 to 253 of a-z, 0-9, - and ., with a letter or digit at the ends of each part."
        raise ValueError(_no_name(text, "Kubernetes"), fix)
    return text


LabelName = Annotated[str, AfterValidator(_label)]
"""Name of a namespace."""
ServiceName = Annotated[str, AfterValidator(_service)]
"""Name of an InferenceService: KServe asks for a letter first, since Kubernetes' Services do."""
RuntimeName = Annotated[str, AfterValidator(_subdomain)]
"""Name of any other object."""

_BY_THE_CLUSTER = frozenset(
    [
        "labels",
        "generateName",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "finalizers",
        "ownerReferences",
        "managedFields",
    ]
)


class Metadata(Strict):
    """`metadata` of any object; what a cluster adds by itself is passed over."""

    kind_in_cluster: ClassVar[str] = "V1ObjectMeta"
    silent: ClassVar[frozenset[str]] = _BY_THE_CLUSTER
    name: RuntimeName
    namespace: LabelName = "default"
    annotations: dict[str, str] = Field(default_factory=dict)


class ServiceMetadata(Metadata):
    """`metadata` of an InferenceService."""

    name: ServiceName
