"""HTTP and JSON endpoints to look at and act on a running `regroup serve`, for tests in any language (docs/control.md).

`endpoints/` calls what the test kit calls, with typed inputs and answers; `document.py` describes them as OpenAPI;
`web/` serves them. Only `web/` needs the extra packages.
"""
