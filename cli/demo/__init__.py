"""cli/demo"""
