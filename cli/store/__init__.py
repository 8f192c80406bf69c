"""cli/store"""
