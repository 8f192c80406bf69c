"""server/history"""
