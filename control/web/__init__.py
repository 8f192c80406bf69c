"""The control port on HTTP, with Starlette and uvicorn: the only part that needs them."""
