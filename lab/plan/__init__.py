"""Plans: what a simulation consists of, as values, as sentences and as YAML; the scenarios that come with the lab."""
