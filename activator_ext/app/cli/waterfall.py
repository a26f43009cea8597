"""One start as a text waterfall: where its seconds went, stage by stage, what they waited for, what has no name."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from textwrap import wrap

from activator_ext.core.overlap import Stretch, critical_path, unnamed
from activator_ext.core.visible import visible
from runtime.contract import Mark, PodStageTime, StageTime, StartRecord, WeightsUse

SPAN_TOLERANCE = 0.1
"""A stage agrees with the engine's own span within a tenth of it, or within `SPAN_SLACK_S`, whichever is more."""
SPAN_SLACK_S = 0.2

_NAME_WIDTH = 19  # the longest stage, engine_construction
_FIXED_WIDTH = 2 + _NAME_WIDTH + 8 + 3 + 8 + 8 + 11  # all columns but the bar


def waterfall(record: StartRecord, now: datetime, *, width: int = 80, ascii_only: bool = False) -> str:
    """The start in `width` columns (at least 74), without colour; `now` ends the bars of a start under way.

    What the end waited for is drawn full; what ran beside that, and could have taken longer for nothing, is drawn thin.
    """
    begin = min([*record.marks.values(), *(stage.begun_at for stage in record.stages)], default=now)
    begin = record.marks.get(Mark.T0, begin)
    total = max((_end(record, now) - begin).total_seconds(), 0.0)
    stages = [(stage, _stretch(stage, begin)) for stage in record.stages]
    gaps = unnamed([stretch for _, stretch in stages], total)
    path = critical_path([stretch for _, stretch in stages], total)
    full, beside, rest = ("#", "=", ".") if ascii_only else ("█", "░", "·")
    bar_width = max(width, 74) - _FIXED_WIDTH

    def row(name: str, at: str, parts: Iterable[tuple[Stretch, str]], took: float, span: str) -> str:
        bar = _bar(parts, total, bar_width)
        line = f"  {name:<{_NAME_WIDTH}}{at:>8} |{bar}|{took:8.2f}{_share(took, total):>8}{span:>11}"
        return line.rstrip()

    head = [line for text in _head(record, begin, gaps, total) for line in wrap(visible(text), max(width, 74))]
    lines = [*head, ""]
    lines.append(f"  {'stage':<{_NAME_WIDTH}}{'at s':>8}  {'':<{bar_width}} {'took s':>8}{'share':>8}{'span s':>11}")
    for index, (stage, stretch) in sorted(enumerate(stages), key=lambda pair: pair[1][1].begin):
        on_path = [(Stretch(link.begin, link.end), full) for link in path if link.index == index]
        took = stage.elapsed_ms / 1000
        parts = [(stretch, beside), *on_path]
        lines.append(row(stage.stage.value, f"{stretch.begin:.2f}", parts, took, _span(stage)))
    missing = sum(gap.end - gap.begin for gap in gaps)
    lines.append(row("(no name)", "", [(gap, rest) for gap in gaps], missing, ""))
    if any(beside in line for line in lines[len(head) :]):
        lines += ["", f"  {full} what readiness waited for   {beside} beside it"]
    text = "\n".join([*lines, "", *_marks(record, begin, max(width, 74))])
    return text.replace("·", "-") if ascii_only else text


def _head(record: StartRecord, begin: datetime, gaps: list[Stretch], total: float) -> list[str]:
    named = 1 - sum(gap.end - gap.begin for gap in gaps) / total if total else 0.0
    share = record.attributed if record.attributed is not None else named
    outcomes = {None: "under way for", "ready": "ready in"}
    why = f" · why: {record.why}" if record.why else ""
    lines = [
        f"{record.service} · start {record.id} · {record.kind.value} · {begin:%Y-%m-%d %H:%M:%S} UTC",
        f"{outcomes.get(record.outcome, f'{record.outcome} after')} {total:.2f} s, {share:.1%} of it named{why}",
    ]
    if record.failure is not None:
        lines.append(f"{record.failure.cause.value}: {record.failure.message}")
    return [*lines, *_weights(record.weights)]


def _weights(use: WeightsUse) -> Iterator[str]:
    """Each way that was tried; nothing where vLLM's own was and did well."""
    for tried in use.tries:
        way = f"weights by {tried.loader} from {tried.source}"
        if tried.failed is not None:
            yield f"{way} failed: {tried.failed}"
        elif len(use.tries) > 1 or tried.loader != "default":
            yield f"{way}: {tried.why}"
    if use.fell_back:
        yield f"weights: ModelExpress fell back: {use.peer}"


def _marks(record: StartRecord, begin: datetime, width: int) -> list[str]:
    """`T0 +0.00  T1 +0.50 …`, wrapped to the width; marks not reached are left out."""
    lines, line = [], "  marks"
    for mark in Mark:
        if mark not in record.marks:
            continue
        text = f"  {mark.value} +{(record.marks[mark] - begin).total_seconds():.2f}"
        if len(line) + len(text) > width:
            lines.append(line)
            line = "       "
        line += text
    return [*lines, line]


def _end(record: StartRecord, now: datetime) -> datetime:
    if Mark.T9 in record.marks:
        return record.marks[Mark.T9]
    if record.failure is not None:
        return record.failure.at
    return now if record.outcome is None else max(record.marks.values(), default=now)


def _stretch(stage: StageTime | PodStageTime, begin: datetime) -> Stretch:
    at = (stage.begun_at - begin).total_seconds()
    return Stretch(at, at + stage.elapsed_ms / 1000)


def _bar(parts: Iterable[tuple[Stretch, str]], total: float, width: int) -> str:
    """Each stretch in its own character; a later one is drawn over an earlier one."""
    cells = [" "] * width
    for stretch, char in parts if total else ():
        first = min(max(int(stretch.begin / total * width), 0), width - 1)
        # A stage of 10 ms in a start of 40 s is a hundredth of a cell: every stage shows one.
        last = min(max(round(stretch.end / total * width), first + 1), width)
        cells[first:last] = [char] * (last - first)
    return "".join(cells)


def _share(took: float, total: float) -> str:
    return f"{took / total:.1%}" if total else ""


def _span(stage: StageTime | PodStageTime) -> str:
    """The engine's own figure for the same work, and whether ours agrees with it."""
    if stage.span_s is None:
        return ""
    off = abs(stage.span_s - stage.elapsed_ms / 1000)
    word = "ok" if off <= max(SPAN_SLACK_S, SPAN_TOLERANCE * stage.span_s) else "off"
    return f"{stage.span_s:.2f} {word:<3}"
