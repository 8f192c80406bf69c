"""`regroup conformance`: runs stories and random courses against any broker."""
