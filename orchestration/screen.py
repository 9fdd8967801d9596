"""What a terminal shows: progress bars while something fills, tables of figures when it is done."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ops.backfill.progress import PipelineProgress, RelationProgress
from ops.common.epoch import show

BAR_CELLS = 24
PLAIN_SECONDS = 5.0
FIGURES = ("rows read", "rows/s", "left")


def bar(done: int, total: int | None) -> Text:
    """Return a bar of `done` out of `total`; a dotted one where the total is not known yet."""
    if not total:
        return Text("·" * BAR_CELLS, style="dim")
    filled = round(BAR_CELLS * min(done, total) / total)
    return Text("█" * filled + "░" * (BAR_CELLS - filled))


def status_table(progress: PipelineProgress, *, now_ms: int) -> Table:
    lag = progress.lag_ms(now_ms)
    who = f"run by {progress.owner}" if progress.owner else "no stream run"
    at = f"epoch {progress.committed} ({show(progress.committed)})" if progress.committed else "new"
    behind = f", {lag / 1000:.1f} s ago" if lag is not None else ""
    paused = "; paused" if progress.paused else ""
    title = f"{progress.pipeline}: {at}{behind}; {who}{paused}"
    table = Table(title=title, title_justify="left")
    for column in ("", "kind", "state", "", "progress", "parts", *FIGURES):
        table.add_column(column, justify="right" if column in ("parts", *FIGURES) else "left")
    for relation in (*progress.relations, *progress.builds):
        table.add_row(
            relation.name if relation.build is None else f"+ {relation.label}",
            relation.kind,
            _state(relation),
            _bar(relation),
            _progress(relation),
            f"{relation.parts_read}/{relation.parts or '?'}",
            f"{relation.rows:,}",
            "" if relation.speed is None else f"{relation.speed:,.0f}",
            "" if relation.seconds_left is None else duration(relation.seconds_left),
        )
    for ended in progress.ending:
        table.add_row(ended, "", Text("Dropping", style="dim"), *[""] * (3 + len(FIGURES)))
    return table


def duration(seconds: float) -> str:
    """Return a time to go, as coarse as it is known: 45 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _bar(relation: RelationProgress) -> Text:
    """Show rows where they were counted, for a split may be long; else parts."""
    if relation.total_rows and not relation.settled:
        return bar(relation.rows, relation.total_rows)
    return bar(relation.parts_read, relation.parts)


def _state(relation: RelationProgress) -> Text:
    if relation.why:
        return Text(f"{relation.state}: {relation.why}", style="red")
    return Text(relation.state, style="green" if relation.settled else "yellow")


def _progress(relation: RelationProgress) -> str:
    limit = f", at most {relation.rows_per_s:,} rows/s" if relation.rows_per_s else ""
    limit += f", {relation.parallelism} readers" if relation.parallelism else ""
    return f"{relation.progress or '?'}{'' if relation.settled else limit}"


class ProgressView:
    """Shows a pipeline while it fills: redrawn on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._last_line = 0.0
        self._last_text = ""

    def update(self, progress: PipelineProgress) -> None:
        if self._live is not None:
            self._live.update(status_table(progress, now_ms=int(time.time() * 1000)))
            return
        text = "; ".join(
            f"{r.label} {r.state} {r.parts_read}/{r.parts or '?'} ({r.rows:,} rows)"
            for r in (*progress.relations, *progress.builds)
        )
        text += "; paused" if progress.paused else ""
        due = time.monotonic() - self._last_line >= PLAIN_SECONDS
        if text != self._last_text and (due or progress.settled):
            self._last_line, self._last_text = time.monotonic(), text
            self._console.print(f"  {text}", highlight=False, soft_wrap=True)

    @contextmanager
    def shown(self) -> Iterator["ProgressView"]:
        if not self._console.is_terminal:
            yield self
            return
        with Live(console=self._console, refresh_per_second=4, transient=True) as live:
            self._live = live
            try:
                yield self
            finally:
                self._live = None
