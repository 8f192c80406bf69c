"""pipeline/gold"""
