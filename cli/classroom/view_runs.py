"""The histories that `regroup view` shows: the groups of one store, or of two."""

from collections.abc import Sequence
from pathlib import Path

from regroup.classroom.page.document import encoded_document
from regroup.classroom.reading import read_timelines
from regroup.classroom.timeline import GroupTimeline
from regroup.cli.classroom.selection import messages_of
from regroup.cli.jobs import CannotRun
from regroup.cli.store.opening import open_store_to_read, unknown_group
from regroup.control.errors import UnknownGroup
from regroup.control.web.page_routes import ListedRun
from regroup.storage.errors import StoreDamaged
from regroup.storage.sqlite.store import SqliteStore


class StoreRuns:
    """The groups of one or two stores for the page. Stores are read at each request, so a reload shows new events."""

    def __init__(self, stores: Sequence[Path], group: str | None) -> None:
        self._stores, self._group = stores, group
        self._documents: dict[tuple[int, str, int], tuple[int, bytes]] = {}

    async def check(self) -> None:
        """Raise StoreError or CannotRun unless each store has a group and all its groups can be read.

        The document of each store's first group is kept, since the page asks for it first.
        """
        for number, path in enumerate(self._stores):
            groups = await self._groups(number)
            if not groups:
                raise CannotRun(f"{path}: the store has no group")
            try:
                await self._read_all(number, groups)
            except StoreDamaged as error:
                raise CannotRun(str(error) if path.name in str(error) else f"{path}: {error}") from error

    async def _read_all(self, number: int, groups: Sequence[str]) -> None:
        async with await open_store_to_read(self._stores[number]) as store:
            head, timelines = await _head(store), await read_timelines(store, groups)
            if groups[0] in timelines:
                self._documents[number, groups[0], 0] = head, await _document(store, timelines[groups[0]], 0)

    async def listed(self) -> Sequence[ListedRun]:
        """Every group of every store; a group that is in both stores stands there twice in a row."""
        groups = [await self._groups(number) for number in range(len(self._stores))]
        labels = _labels(self._stores)
        runs = [ListedRun(number, labels[number], group) for number, found in enumerate(groups) for group in found]
        return sorted(runs, key=lambda run: (groups[run.run].index(run.group), run.run))

    async def document(self, run: int, group: str, after: int) -> bytes:
        """The JSON document with what has changed in a group after a position. `run` is the index of the store.

        Raises UnknownGroup, StoreError.
        """
        if run >= len(self._stores):
            raise UnknownGroup(f"there is no run {run}")
        async with await open_store_to_read(self._stores[run]) as store:
            key, head = (run, group, after), await _head(store)
            known = self._documents.get(key)
            if known is None or known[0] != head:
                if group not in await store.heads():
                    raise UnknownGroup(unknown_group(group, sorted(filter(None, await store.heads()))))
                timelines = await read_timelines(store, [group])
                if group not in timelines:
                    raise UnknownGroup(f"all events of group {group!r} have been trimmed")
                self._documents = {each: value for each, value in self._documents.items() if each[2] == 0}
                self._documents[key] = known = head, await _document(store, timelines[group], after)
            return known[1]

    async def _groups(self, number: int) -> list[str]:
        async with await open_store_to_read(self._stores[number]) as store:
            known = sorted(group for group in await store.heads() if group is not None)
        if self._group is None:
            return known
        if self._group not in known:
            raise CannotRun(f"{self._stores[number]}: {unknown_group(self._group, known)}")
        return [self._group]


async def _document(store: SqliteStore, timeline: GroupTimeline, after: int) -> bytes:
    return encoded_document(timeline, after=after, messages=await messages_of(store, timeline))


async def _head(store: SqliteStore) -> int:
    """The position of the last event in the store, of all groups."""
    return max((head.position for head in (await store.heads()).values()), default=0)


def _labels(stores: Sequence[Path]) -> list[str]:
    """A label for each store: the file's name, or its whole path if both files have the same name."""
    names = [path.name for path in stores]
    return names if len(set(names)) == len(names) else list(map(str, stores))
