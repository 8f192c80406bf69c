"""cli/chaos"""
