"""The languages of the classroom."""

from enum import Enum


class Language(Enum):
    """A language by its code, as it stands in a lesson's file, after `--language`, and in the page's address."""

    ENGLISH = "en"
    CHINESE = "zh"
    """Simplified Chinese; Kafka's own terms stay English."""
