"""`regroup pipeline`, `campaign` and `report`: the commands that run on Spark."""
