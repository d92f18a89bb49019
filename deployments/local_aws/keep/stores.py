"""Small state, entry by entry: configuration of queues, tables and buckets, roles, topics, rules, sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ministack.core.responses import AccountRegionScopedDict, AccountScopedDict

from deployments.local_aws.keep.journal import Journal, packed

Scoped = (AccountScopedDict, AccountRegionScopedDict)


def scoped_stores(module: Any, leave_out: Iterable[str] = ()) -> dict[str, dict[Any, Any]]:
    """All dictionaries of a ministack service that are kept per account, by name."""
    return {
        name: value._data for name, value in vars(module).items() if isinstance(value, Scoped) and name not in leave_out
    }


class Stores:
    """Writes the entries of some dictionaries that differ from what was last written."""

    def __init__(
        self,
        journal: Journal,
        kind: str,
        stores: dict[str, dict[Any, Any]],
        slim: Callable[[str, Any], Any] = lambda name, value: value,
    ) -> None:
        self.journal, self.kind, self.stores, self.slim = journal, kind, stores, slim
        self.written: dict[tuple[str, Any], bytes] = {}

    def restore(self) -> None:
        for (name, key), value in self.journal.rows(self.kind):
            if name in self.stores:
                self.stores[name][key] = value
                self.written[name, key] = packed(value)

    def collect(self, naming: str = "") -> None:
        """Stages what changed; with a name, only entries whose key holds that name are looked at."""
        seen = set()
        for name, store in self.stores.items():
            for key, value in list(store.items()):
                if naming and naming not in repr(key):
                    continue
                seen.add((name, key))
                slim = self.slim(name, value)
                if self.written.get((name, key)) != (now := packed(slim)):
                    self.journal.put(self.kind, (name, key), slim)
                    self.written[name, key] = now
        for name, key in [entry for entry in self.written if entry not in seen]:
            if not naming or naming in repr(key):
                self.journal.drop(self.kind, (name, key))
                del self.written[name, key]
