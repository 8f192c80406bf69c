"""coordinator/runtime"""
