"""conformance/differential"""
