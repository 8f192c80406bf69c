"""server/cluster"""
