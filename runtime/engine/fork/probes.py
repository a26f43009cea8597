"""What torch finds out about a processor by compiling and loading small programs: once, beside the imports.

Inductor asks which vector instructions it may use before it loads compiled code, also where nothing is left to compile:
1.6 of the 1.9 s that loading a whole AOT artifact took (torch 2.13, `_inductor/cpu_vec_isa.py`). The answer is the
machine's and is kept in the process: forks inherit it. The probes are other programs; they run while this one imports.
"""

import os
import sys
import tempfile
import threading

CACHE_ENV = "TORCHINDUCTOR_CACHE_DIR"


class Probes:
    """Begin once torch is imported, lest two threads import it, each half; `join` before the first fork."""

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="pilotlight-probes-")
        self._before = os.environ.get(CACHE_ENV)
        os.environ[CACHE_ENV] = self._scratch.name
        self._thread = threading.Thread(target=_probe, name="probes")
        self._thread.start()

    def join(self) -> None:
        """Wait for their end and leave nothing behind."""
        self._thread.join()
        self._scratch.cleanup()
        if self._before is None:
            os.environ.pop(CACHE_ENV, None)
        else:
            os.environ[CACHE_ENV] = self._before


def _probe() -> None:
    try:
        from torch._inductor import cpu_vec_isa  # noqa: PLC0415  (only a fork server has torch)

        if not cpu_vec_isa.valid_vec_isa_list():
            # Nothing was found, as without a compiler: engines look again, and say what is missing.
            cpu_vec_isa.valid_vec_isa_list.cache_clear()
            cpu_vec_isa.VecISA._VecISA__bool__impl.cache_clear()
    except Exception as error:  # another torch: engines find out by themselves, as they would have
        print(f"fork server: the processor was not probed: {type(error).__name__}: {error}", file=sys.stderr)
