"""members/transports"""
