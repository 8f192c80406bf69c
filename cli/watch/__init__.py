"""`regroup watch`: the groups of a cluster, live over MQTT."""
