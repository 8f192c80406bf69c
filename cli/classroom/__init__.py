"""`regroup story`, `export` and `step`: one group's history as sentences, as pictures, and key by key."""
