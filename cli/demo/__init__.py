"""`regroup demo`: runs a coordinator and three Kafka clients as processes, and kills two of them."""
