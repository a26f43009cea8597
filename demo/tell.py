"""How the demo speaks: numbered steps, seconds in front of each line, a table of claims at the end."""

import time
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from demo.claims import Claim

# A line at least this often, so that nobody wonders whether it still lives.
SPEAK_EVERY_S = 10.0


class Narrator:
    """Prints to one console; what stays the same is repeated every ten seconds only."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = time.monotonic()
        self._step = 0
        self._said = ""
        self._said_at = 0.0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._begun

    def step(self, title: str) -> None:
        """A new step."""
        self._step += 1
        self._said = ""
        self._console.print(f"\n[bold cyan]{self._step}. {escape(title)}[/]")

    def say(self, text: str) -> None:
        """One line."""
        self._console.print(f"[dim]{self.elapsed_s:6.1f} s[/]  {escape(text)}", highlight=False, soft_wrap=True)

    def progress(self, state: str, detail: str = "") -> None:
        """Say `state` when it changes, else every ten seconds; `detail` alone is no reason to speak."""
        if state == self._said and self.elapsed_s - self._said_at < SPEAK_EVERY_S:
            return
        self._said, self._said_at = state, self.elapsed_s
        self.say(f"… {state}{detail}")

    def verbatim(self, text: str) -> None:
        """Text as it is."""
        self._console.print(escape(text.rstrip()), highlight=False, soft_wrap=True)

    def table(self, claims: Sequence[Claim]) -> None:
        """Every claim with what was measured."""
        table = Table(box=box.SIMPLE, title="What was claimed and what was measured", title_justify="left")
        table.add_column("")
        table.add_column("claim")
        table.add_column("measured")
        for claim in claims:
            mark = "[green]pass[/]" if claim.holds else "[bold red]FAIL[/]"
            table.add_row(mark, escape(claim.text), escape(claim.measured))
        self._console.print()
        self._console.print(table)
