"""The mutants of a run: as many of each kind, drawn by a seed from all files of the rooms."""

from hashlib import sha256

from tests.mutants.sites import KINDS, Mutation


def draw(mutations: list[Mutation], count: int, seed: int) -> list[Mutation]:
    """Draw `count` mutations, an equal share of each kind, the kinds in turn; all of a kind that has too few.

    A smaller draw with the same seed is the beginning of a larger one. A change of the sources changes the draw by the
    mutations of the changed places alone, because the order is that of the hashes of seed and key.
    """

    def place(mutation: Mutation) -> bytes:
        return sha256(f"{seed}:{mutation.key}".encode()).digest()

    columns: list[list[Mutation]] = []
    for kind in KINDS:
        column = sorted((each for each in mutations if each.kind == kind), key=place)
        columns.append(column[: -(-count // len(KINDS))])
    longest = max(map(len, columns))
    return [column[index] for index in range(longest) for column in columns if index < len(column)][:count]
