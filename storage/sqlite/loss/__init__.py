"""Notices that files of a store were deleted, replaced or cut off by another process while it is being written."""
