"""pipeline/spark"""
