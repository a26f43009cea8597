"""The findings as tables for people."""

from io import StringIO
from statistics import median

from rich.console import Console
from rich.table import Table

from runtime.contract import Stage
from start.findings import Findings, spread
from start.measured import Start
from start.plan import MEANING, SUBJECTS, Subject

CAPTION = "in brackets: beside something longer in every round; stock names no more of its stages"


def tables(found: Findings) -> str:
    """Seconds by model and subject, and stage by stage."""
    console = Console(width=118, record=True, file=StringIO())
    for model in found.models:
        console.print(_totals(found, model))
        console.print(_stages(found, model))
    return console.export_text().rstrip()


def comparison(first: Findings, second: Findings) -> str:
    """Two runs beside each other: how many times faster the second is."""
    console = Console(width=118, record=True, file=StringIO())
    table = Table("model", "subject", "first s", "second s", "times faster", title="spawn → first token, medians")
    for model in (model for model in first.models if model in second.models):
        for subject in SUBJECTS:
            if first.of(model, subject) and second.of(model, subject):
                one, two = first.seconds(model, subject), second.seconds(model, subject)
                table.add_row(model, subject, f"{one:.2f}", f"{two:.2f}", f"{one / two:.2f}")
    console.print(table)
    return console.export_text().rstrip()


def _totals(found: Findings, model: str) -> Table:
    dropped = ", model files out of the page cache" if model in found.dropped else ""
    table = Table(
        "subject", "first token, s", "range", "× cold", "× warm", "verdict", "compile, s", "named", "what it is",
        title=f"{model}: spawn → first token{dropped}",
    )  # fmt: skip
    for subject in SUBJECTS:
        starts = found.of(model, subject)
        if not starts:
            continue
        mid, least, most = spread(start.first_token_s for start in starts)
        compiled = [start.compile_s for start in starts if start.compile_s is not None]
        table.add_row(
            subject,
            f"{mid:.2f}",
            f"{least:.2f}–{most:.2f}",
            f"{found.seconds(model, 'stock-cold') / mid:.2f}",
            f"{found.seconds(model, 'stock-warm') / mid:.2f}",
            "/".join(sorted({start.verdict or "" for start in starts})),
            f"{spread(compiled)[0]:.2f}" if compiled else "",
            _named(starts),
            MEANING[subject],
        )
    return table


def _named(starts: tuple[Start, ...]) -> str:
    known = [start.attributed for start in starts if start.attributed is not None]
    return f"{min(known):.1%}" if known else ""


def _stages(found: Findings, model: str) -> Table:
    table = Table("stage", *SUBJECTS, title=f"{model}: seconds by stage, medians", caption=CAPTION)
    for stage in Stage:
        cells = [_cell(found, model, subject, stage) for subject in SUBJECTS]
        if any(cells):
            table.add_row(stage.value, *cells)
    return table


def _cell(found: Findings, model: str, subject: Subject, stage: Stage) -> str:
    starts = [start for start in found.of(model, subject) if stage.value in start.stages]
    if not starts:
        return ""
    text = f"{median(start.stages[stage.value] for start in starts):.2f}"
    return f"({text})" if all(stage.value in start.beside for start in starts) else text
