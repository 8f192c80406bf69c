"""Is it like Kafka? Stories told over the wire to any address that speaks Kafka, and what came of each.

    from regroup.conformance.harness.target import Target               # an address: its versions, its settings
    from regroup.conformance.stories import CASES               # the stories, each with what it needs to be told
    from regroup.conformance.run.runner import run                  # many stories at once -> verdicts
    from regroup.conformance.run.report import as_json, as_text     # what a person and a program read

A story names the behaviour it checks, plays it on raw connections under a group id of its own, and says what it
expects. Three ends are possible: it passed; it failed, and the exchange is shown; it could not be observed there, and
the reason is given. Nothing here knows the coordinator's inside: the stories are as true of Apache Kafka as of ours.
"""
