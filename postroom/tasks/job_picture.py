"""A job drawn as a Mermaid graph: names are ours to choose, so nothing a sender wrote can be markup in it."""

from __future__ import annotations

import re

from postroom.tasks.job_state import Standing, Stands

COLOURS = {
    Stands.COMPLETED: ("✓", "fill:#d7f0dd,stroke:#2d8a4e"),
    Stands.FAILED: ("✗", "fill:#f9d6d5,stroke:#b3261e"),
    Stands.RUNNING: ("…", "fill:#d6e6fa,stroke:#2463a8"),
    Stands.READY: ("→", "fill:#eef3fa,stroke:#2463a8"),
    Stands.WAITING: (" ", "fill:#f4f4f4,stroke:#8a8a8a"),
    Stands.BLOCKED: ("–", "fill:#f4f4f4,stroke:#b3261e,stroke-dasharray:4"),
}
_UNSAFE = re.compile(r"[^\w .,:+/-]+")


def mermaid(seen: Standing) -> str:
    """The graph, a node for each task with its state, an arrow from each parent."""
    nodes = {step.id: f"t{n}" for n, step in enumerate(seen.plan.steps)}
    lines = ["graph TD"]
    for step in seen.plan.steps:
        stands = seen.tasks[step.id]
        label = f"{COLOURS[stands][0]} {plain(step.id)}<br/>{stands.value}"
        lines.append(f'    {nodes[step.id]}["{label}"]:::{stands.value}')
    lines += [f"    {nodes[each]} --> {nodes[step.id]}" for step in seen.plan.steps for each in step.depends_on]
    lines += [f"    classDef {stands.value} {style}" for stands, (_, style) in COLOURS.items() if seen.those(stands)]
    return "\n".join(lines)


def plain(text: str, limit: int = 60) -> str:
    """Words that are no markup, in one line."""
    return " ".join(_UNSAFE.sub(" ", text).split())[:limit]
