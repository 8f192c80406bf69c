"""protocol/consumer"""
