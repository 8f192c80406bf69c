"""members/consumer"""
