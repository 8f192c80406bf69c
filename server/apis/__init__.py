"""The broker's handlers, one file a subject. Groups have their own."""
