"""The mutants of a run: as many of each kind, drawn by a seed from all files of the rooms."""

from random import Random

from tests.mutants.sites import KINDS, Mutation


def draw(mutations: list[Mutation], count: int, seed: int) -> list[Mutation]:
    """Draw `count` mutations, an equal share of each kind, the kinds in turn; all of a kind that has too few.

    A smaller draw with the same seed is the beginning of a larger one.
    """
    random = Random(seed)
    columns: list[list[Mutation]] = []
    for kind in KINDS:
        column = [each for each in mutations if each.kind == kind]
        random.shuffle(column)
        columns.append(column[: -(-count // len(KINDS))])
    longest = max(map(len, columns))
    return [column[index] for index in range(longest) for column in columns if index < len(column)][:count]
