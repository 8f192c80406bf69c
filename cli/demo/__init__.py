"""`regroup demo`: a coordinator and three Kafka clients as processes, two of which are killed."""
