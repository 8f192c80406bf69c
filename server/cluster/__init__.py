"""The cluster that all brokers share: topics, partitions and their leaders, transactions, coordinators of groups."""
