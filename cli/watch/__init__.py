"""cli/watch"""
