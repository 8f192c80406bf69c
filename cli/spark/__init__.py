"""cli/spark"""
