"""conformance/harness"""
