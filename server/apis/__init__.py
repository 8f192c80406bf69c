"""The handlers of requests, one module for each subject."""
