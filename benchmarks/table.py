"""What a benchmark hands back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Table:
    """Rows under columns, with sentences that say how they were measured and whether a goal was reached."""

    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """The table and its sentences."""
        lines = [_line(self.columns), _line(["---"] * len(self.columns)), *map(_line, self.rows)]
        return "\n".join(lines) + "".join(f"\n\n{sentence}" for sentence in self.sentences)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values do not exceed."""
    if not values:
        raise ValueError("there is no percentile of nothing")
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, -(-len(ordered) * int(share * 1000) // 1000) - 1))]
