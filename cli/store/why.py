"""The job of `regroup why`: explains in sentences why a group rebalanced, or what happened to a member."""

import asyncio
import textwrap
from argparse import Namespace
from typing import Final

import msgspec

from regroup.cli.jobs import CannotRun, cannot_run_after
from regroup.cli.store.opening import open_store_to_read, unknown_group
from regroup.cli.terminal.text import printable, printable_json
from regroup.server.explanation.explain import CannotExplain, explain_event, explain_group, explain_member
from regroup.server.explanation.history import KnownHistory, read_known_history
from regroup.server.explanation.sentences import Explanation

LINE_LENGTH: Final = 80


@cannot_run_after(CannotExplain)
def run(args: Namespace) -> int:
    if args.member is not None and args.event is not None:
        raise CannotRun("--member and --event exclude each other: leave one of them out")
    explanations = explained(asyncio.run(history_of(args)), args)
    if args.json:
        print(printable_json(msgspec.json.encode(explanations).decode()))
        return 0
    for explanation in explanations:
        text = printable(str(explanation))
        if explanation.position is not None:
            text += f" [event\N{NO-BREAK SPACE}{explanation.position}]"
        filled = textwrap.fill(text, LINE_LENGTH, subsequent_indent="  ", break_on_hyphens=False)
        print(filled.replace("\N{NO-BREAK SPACE}", " "))
    return 0


async def history_of(args: Namespace) -> KnownHistory:
    """Read the history of the group that the arguments name. Raises CannotRun if neither an event nor a recorded
    exchange of the store names it."""
    async with await open_store_to_read(args.store) as store:
        known = {group for group in await store.heads() if group is not None}
        history = await read_known_history(store, args.group)
        if args.group not in known and not history.exchanges:
            raise CannotRun(unknown_group(args.group, known))
        return history


def explained(history: KnownHistory, args: Namespace) -> list[Explanation]:
    """The explanations that the arguments ask for. Raises CannotExplain."""
    if args.event is not None:
        return explain_event(history, args.event)
    return explain_group(history) if args.member is None else explain_member(history, args.member)
