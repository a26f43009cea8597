"""pytest under coverage, then the gate on the core's coverage; quiet about the gate unless it fails.

    python -m scripts.gated [PYTEST ARGUMENTS]

The last line of a run that passes is pytest's own summary.
"""

import subprocess
import sys


def main(arguments: list[str]) -> int:
    """The exit status: pytest's, else 2 if the core is not covered."""
    coverage = [sys.executable, "-m", "coverage"]
    tests = subprocess.run([*coverage, "run", "-m", "pytest", *arguments], check=False)
    if tests.returncode != 0:
        return tests.returncode
    report = subprocess.run([*coverage, "report", "--skip-covered"], capture_output=True, text=True, check=False)
    if report.returncode != 0:
        print(report.stdout + report.stderr, end="")
        print("coverage: each line and branch of activator_ext/core must be covered by a test")
    return report.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
