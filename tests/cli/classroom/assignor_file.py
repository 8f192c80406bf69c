"""An assignor as a learner writes it, which solves the task of its lesson."""

IN_TURN = """
def assign(partitions, members):
    result = {name: [] for name in members}
    for topic in sorted(partitions):
        names = sorted(name for name in members if topic in members[name]["topics"])
        for number in range(partitions[topic]):
            if names:
                fewest = min(names, key=lambda name: (len(result[name]), name))
                result[fewest].append((topic, number))
    return result
"""
