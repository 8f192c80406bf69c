"""Serves the endpoints over HTTP with Starlette and uvicorn; no other part needs these packages."""
