"""What responses have to say: the table of error codes, the parts of requests, and descriptions of groups."""
