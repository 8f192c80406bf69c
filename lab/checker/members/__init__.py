"""The rules about single members: what they may process, commit and send, and when."""
