"""`regroup conformance`: stories and random courses against any broker."""
