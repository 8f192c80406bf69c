"""server/log"""
