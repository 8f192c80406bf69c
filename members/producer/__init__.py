"""members/producer"""
