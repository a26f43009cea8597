"""When two specs mean the same engine, and when the same proof."""

import hashlib

from runtime.contract import EngineSpec


def spec_digest(spec: EngineSpec) -> str:
    """What makes two specs start different engines: everything but timeouts and the declared golden answer."""
    material = spec.model_dump_json(exclude={"golden", "start_timeout_s", "drain_timeout_s"})
    return hashlib.sha256(material.encode()).hexdigest()[:16]


def same_golden(one: EngineSpec, other: EngineSpec) -> bool:
    """Whether both declare the same golden prompt and answer, whatever was learned."""
    return one.golden.model_copy(update={"learned": {}}) == other.golden.model_copy(update={"learned": {}})
