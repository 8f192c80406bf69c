"""pipeline/campaign"""
