"""What a cluster shows of our objects: the page docs/reference/objects.md, from the models and the conditions."""

from collections.abc import Iterator
from typing import get_origin

from pydantic import BaseModel

from activator_ext.adapters.kubernetes.conditions import REASONS
from scripts.crds import KINDS, documented, inner_model

EXAMPLE_HOLD = """\
apiVersion: pilotlight.dev/v1alpha1
kind: PrewarmHold
metadata:
  name: board-demo
  namespace: team-a
spec:
  serviceRef:                          # stays as it is: for another service make another hold
    kind: InferenceService             # optional, default: InferenceService
    name: chat                         # required
  replicas: 2                          # optional, default: 1
  readyBy: "2026-12-01T09:00:00+01:00" # optional, default: at once
  until: "2026-12-01T12:00:00+01:00"   # this or for; at most 31 days after readyBy, else after its creation
  # for: 3h                            # this or until: so long from readyBy, else from its creation
  reason: demo for the board           # optional
"""
"""A hold with every key."""

_TEXT = """\
PrewarmPolicy ([every key](policy.md)) and PrewarmHold are namespaced objects of `pilotlight.dev/v1alpha1`, defined in
`manifests/crds`; `kubectl get pilotlight` lists both. What `pilotlight check` takes is what a cluster takes;
[bad objects](bad-objects.md) shows what it says of others.

A policy may be pointed at another service. Of two policies for one service the older counts, by creation, then name,
and both say so. A policy that an edit made invalid keeps its last valid content while the controller that saw it runs.
A service that no policy and no hold names is left alone.

## PrewarmHold

```yaml
{hold}```

An expired hold stays for a day. A ResourceQuota on `count/prewarmholds.pilotlight.dev` bounds how many a namespace has.

## Columns

{columns}

## Conditions

{conditions}

## Status

Nothing here moves with single requests: a service that answers is `warm`, not `busy`; how many requests wait, and how
long it has been idle, the API and the metrics tell. Durations are text such as `47s`, instants whole seconds in UTC.

{status}
"""


def page() -> str:
    """The page's body."""
    return _TEXT.format(
        hold=EXAMPLE_HOLD,
        columns=_table(
            ("kind", "short", "columns", "with `-o wide` also"),
            [
                (
                    f"`{kind.name}`",
                    f"`{kind.short}`",
                    _columns(kind.columns, wide=False),
                    _columns(kind.columns, wide=True),
                )
                for kind in KINDS
            ],
        ),
        conditions=_table(
            ("condition", "reason", "status", "meaning"),
            [
                (f"`{condition}`", f"`{reason}`", status, meaning)
                for condition, reasons in REASONS.items()
                for reason, (status, meaning) in reasons.items()
            ],
        ),
        status="\n\n".join(
            f"### Of a {kind.name}\n\n{_table(('key', 'meaning'), list(_fields(kind.status, '')))}" for kind in KINDS
        ),
    ).rstrip()


def _columns(columns: tuple[tuple[str, str, str, bool], ...], *, wide: bool) -> str:
    return ", ".join(name for name, _, _, only_wide in columns if only_wide is wide)


def _fields(model: type[BaseModel], path: str) -> Iterator[tuple[str, str]]:
    for name, field in model.model_fields.items():
        key = f"{path}{field.alias or name}"
        inner = inner_model(field.annotation)
        many = "[]" if get_origin(field.annotation) is list else ""
        yield f"`{key}{many}`", documented(model)[name]
        if inner is not None and name != "conditions":
            yield from _fields(inner, f"{key}{many}.")


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, tuple("---" for _ in head), *rows))
