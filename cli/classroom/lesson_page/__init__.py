"""`regroup lesson --page`: the lessons in a browser, with every run in a process of its own."""
