"""lab/search"""
