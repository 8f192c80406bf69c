"""members/runtime"""
