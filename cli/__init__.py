"""The command line `regroup`: each command has its arguments, which are quick to load, and a job that
carries it out.
"""
