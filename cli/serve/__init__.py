"""cli/serve"""
