"""protocol/codec"""
