"""Every text that an object still holds on to, however deep."""

import gc
import types
from collections.abc import Iterator

_NOT_FOLLOWED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType, types.FrameType)


def texts(root: object) -> Iterator[str]:
    """Each string that can be reached from `root` by references, code and modules left out."""
    seen: set[int] = set()
    todo: list[object] = [root]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, _NOT_FOLLOWED):
            continue
        seen.add(id(thing))
        if isinstance(thing, str):
            yield thing
        else:
            todo += gc.get_referents(thing)
            if isinstance(thing, types.MethodType):
                todo.append(thing.__self__)
