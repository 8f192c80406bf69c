"""coordinator/offsets"""
