"""A run as a table for people."""

from io import StringIO

from rich.console import Console
from rich.table import Table

from levels.measured import LEVELS, OWN, Run


def tables(run: Run) -> str:
    """One table for each model."""
    console = Console(width=150, record=True, file=StringIO())
    for model in run.models:
        table = Table(
            "level", "first start, s", "processor, s", "compile, s", "next start, s", "processor, s", "compile, s",
            "tokens/s, one", "tokens/s, eight",
            title=f"{model}: what each level costs a start, and gives an answer (× {OWN}, vLLM's own)",
        )  # fmt: skip
        own = run.of(model, OWN)
        for level in LEVELS:
            figures = run.of(model, level)
            if figures is None:
                continue
            ratios = figures.beside(own) if own is not None else {}

            def told(value: float, name: str, ratios: dict[str, float] = ratios) -> str:
                return f"{value:.1f}" + (f" (× {ratios[name]:.2f})" if name in ratios else "")

            table.add_row(
                level,
                told(figures.first_s, "first"),
                told(figures.first_cpu_s, "first_cpu"),
                f"{figures.compile_s[0]:.1f}",
                told(figures.again_s, "again"),
                told(figures.again_cpu_s, "again_cpu"),
                f"{figures.compile_s[1]:.1f}",
                *(told(rate, f"rate_{batch}") for batch, rate in figures.rates.items()),
            )
        console.print(table)
    return console.export_text().rstrip()
