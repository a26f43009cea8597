"""Lines of vLLM's log on CUDA → the figures of a start. Written from vLLM 0.32's source; never seen from a GPU."""

import re
from dataclasses import asdict, dataclass

_CAPTURE = re.compile(r"Graph capturing finished in (?P<seconds>\d+) secs, took (?P<gib>-?[\d.]+) GiB")
_COMPILE = re.compile(r"torch\.compile took (?P<seconds>[\d.]+) s in total")
_LOADED = re.compile(r"Directly load the compiled graph\(s\)")
_INIT = re.compile(r"init engine \(profile, create kv cache, warmup model\) took (?P<seconds>[\d.]+) s")
_KV = re.compile(r"GPU KV cache size: (?P<tokens>[\d,]+) tokens")
_GRAPHS = re.compile(r"Capturing CUDA graphs \((?P<mode>[^)]*)\).*?\b(?P<number>\d+)/(?P=number)\b")


@dataclass
class Figures:
    """What a log says, as far as it has been read. `capture_s` in whole seconds, as vLLM tells it.

    `graphs`: captured graphs, both modes together. `init_s`: profiling, KV cache, compile and capture.
    """

    capture_s: float | None = None
    graph_gib: float | None = None
    graphs: int = 0
    compile_s: float | None = None
    loaded: bool = False
    init_s: float | None = None
    kv_tokens: int | None = None

    def take(self, line: str) -> None:
        """One line, in which a progress bar may stand several times."""
        if found := _CAPTURE.search(line):
            self.capture_s, self.graph_gib = float(found["seconds"]), float(found["gib"])
        if found := _COMPILE.search(line):
            self.compile_s = float(found["seconds"])
        if _LOADED.search(line):
            self.loaded = True
        if found := _INIT.search(line):
            self.init_s = float(found["seconds"])
        if found := _KV.search(line):
            self.kv_tokens = int(found["tokens"].replace(",", ""))
        # Only the bar's last state counts: all of them captured.
        if found := _GRAPHS.search(line):
            self.graphs += int(found["number"])

    def told(self) -> dict[str, float | int | bool | None]:
        """As JSON has them."""
        return asdict(self)
