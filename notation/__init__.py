"""How people write values for this project: durations, partitions, and YAML files in which no key occurs twice."""
