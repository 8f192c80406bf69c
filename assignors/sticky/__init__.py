"""The sticky assignors of the classic protocol: `sticky` and `cooperative-sticky`."""
