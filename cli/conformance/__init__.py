"""cli/conformance"""
