"""How people write values for this project: durations, and YAML files in which no key occurs twice."""
