"""lab/plan"""
