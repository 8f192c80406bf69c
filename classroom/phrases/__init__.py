"""Sentences without a language, and the catalogues that write them in English and in Chinese."""
