"""pipeline/source"""
