"""lab/checker"""
