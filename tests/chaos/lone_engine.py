"""The fake engine, which also says when it is not alone: another engine of its replica lives at the same time.

In the replica's directory `second` gets a line with the pid of each that was not alone. The kernel keeps the lock as
long as the process lives, so nobody has to look at the right moment.
"""

import fcntl
import os
import runpy
from pathlib import Path

HOME = Path.cwd().parent


lock = (HOME / "alone").open("a")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    with (HOME / "second").open("a") as file:
        file.write(f"{os.getpid()}\n")
runpy.run_path(str(Path(__file__).parent.parent / "fakes" / "engine.py"), run_name="__main__")
