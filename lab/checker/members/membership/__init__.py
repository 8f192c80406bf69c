"""What members do when they join, are assigned partitions, are fenced, lose their generation and leave."""
