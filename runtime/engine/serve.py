"""`python -P -m runtime.engine.serve serve MODEL …`: vLLM's own command line, on a leash and with markers.

vLLM starts EngineCore and Worker by multiprocessing's spawn, which imports this module again in each of them (as
`__mp_main__`): so the same lines mark and leash all three processes. Keep its imports light: they are paid thrice.
"""

import gc
import multiprocessing
import sys

from runtime.engine.leash import leash, leash_to_starter
from runtime.engine.marker import emit, role_of
from runtime.engine.obituary import tell_deaths
from runtime.engine.snapshot.plain_loop import plain_loop

if __name__ == "__main__":
    leash_to_starter()
    emit("main", "api")
elif __name__ == "__mp_main__":
    leash()
    emit("main", role_of(multiprocessing.current_process().name, __name__))
if __name__ in {"__main__", "__mp_main__"}:
    tell_deaths()
    plain_loop()
    # Until the plugin says that the imports are done: they make no garbage, and looking for it is a third of the time.
    gc.disable()


def main() -> None:
    """Hand over to vLLM with our argv; its usage and error lines then speak of `vllm`."""
    sys.argv[0] = "vllm"
    from vllm.entrypoints.cli.main import main as vllm_main  # noqa: PLC0415  (children must not pay for it here)

    vllm_main()


if __name__ == "__main__":
    main()
