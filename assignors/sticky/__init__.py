"""The sticky assignors of the classic protocol: `sticky`, `cooperative-sticky`, and `sticky` before Kafka 2.6.

As in Kafka's AbstractStickyAssignor, `constrained` assigns where all subscriptions are equal, `general` elsewhere.
"""
