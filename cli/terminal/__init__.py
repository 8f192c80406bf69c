"""cli/terminal"""
