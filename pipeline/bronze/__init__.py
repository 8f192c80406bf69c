"""pipeline/bronze"""
