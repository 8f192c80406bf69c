"""The commands `regroup story` and `regroup export`: one group's history as sentences and pictures."""
