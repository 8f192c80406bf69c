"""When a search of the topics for the patterns of a group (KIP-848) leads to a new group epoch."""

from regroup.lab.checker.exchanges import ObservedExchange


def an_epoch_follows_what_patterns_match(state: object, exchange: ObservedExchange) -> str | None:
    """A search for patterns leads to a new group epoch only if a pattern matches other topics or a topic has changed.

    In that case it always does.
    """
    before, after = exchange.before.consumer, exchange.after.consumer
    if before is None or after is None:
        return None
    matched = {regex: each.topics for regex, each in before.resolved_regexes.items()}
    others = [regex for regex, each in after.resolved_regexes.items() if each.topics != matched.get(regex, ())]
    is_due = bool(others) or before.metadata_hash != after.metadata_hash
    if (after.group_epoch != before.group_epoch) == is_due:
        return None
    found = f"other topics match {', '.join(others)}" if others else "the patterns match what they matched"
    return f"{found}, and the group epoch is {after.group_epoch} after {before.group_epoch}"
