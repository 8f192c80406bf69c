"""coordinator/classic"""
