"""cli/members"""
