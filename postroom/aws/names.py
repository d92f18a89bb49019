"""What every queue, bucket and table is called. The only place that puts these names together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """Names of the AWS resources of one post room, from its prefix."""

    prefix: str = "postroom"

    @property
    def mail_bucket(self) -> str:
        return f"{self.prefix}-mail"

    @property
    def mail_queue(self) -> str:
        return f"{self.prefix}-mail"

    @property
    def tasks_queue(self) -> str:
        return f"{self.prefix}-tasks"

    @property
    def tasks_bucket(self) -> str:
        return f"{self.prefix}-tasks"

    @property
    def ses_events_queue(self) -> str:
        return f"{self.prefix}-ses-events"

    @property
    def changes_bucket(self) -> str:
        return f"{self.prefix}-changes"

    def changes_queue(self, code: str) -> str:
        return f"{self.prefix}-changes-{code}"

    @staticmethod
    def dead_letters(queue: str) -> str:
        return f"{queue}-dlq"

    @property
    def bus(self) -> str:
        return f"{self.prefix}-events"

    @property
    def events(self) -> str:
        return f"{self.prefix}-events"

    @property
    def leases(self) -> str:
        return f"{self.prefix}-leases"

    @property
    def instructions(self) -> str:
        return f"{self.prefix}-instructions"

    @property
    def interruptions(self) -> str:
        return f"{self.prefix}-interruptions"

    @property
    def threads(self) -> str:
        return f"{self.prefix}-threads"

    @property
    def deliveries(self) -> str:
        return f"{self.prefix}-deliveries"

    @staticmethod
    def media_bucket(project: str, domain: str) -> str:
        return f"media-source.{project}.{domain}"

    @staticmethod
    def edit_bucket(project: str, domain: str) -> str:
        return f"edit.{project}.{domain}"

    @staticmethod
    def production_bucket(project: str, domain: str) -> str:
        return f"{project}.{domain}"
