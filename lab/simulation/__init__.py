"""lab/simulation"""
