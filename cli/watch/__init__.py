"""`regroup watch`: shows the groups of a cluster, live over MQTT."""
