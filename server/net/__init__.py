"""server/net"""
