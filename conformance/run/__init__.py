"""conformance/run"""
