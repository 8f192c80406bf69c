"""Conformance tests of group coordinators: short stories that any Kafka broker can be tested with, over the wire.

    from regroup.conformance.harness.broker_under_test import ConformanceTarget  # the broker under test
    from regroup.conformance.stories import CASES                       # all stories, by behaviour id
    from regroup.conformance.run.runner import run_stories              # runs stories side by side, returns verdicts
    from regroup.conformance.run.report import encode_report, format_report

A story checks one behaviour of the catalogue. It sends requests on raw connections, in a group of its own, and states
which responses it expects. Its verdict is pass, fail (with a transcript of requests and responses) or not observable
(with the reason). Stories use the wire protocol only, so they test Apache Kafka as well as regroup.
"""
