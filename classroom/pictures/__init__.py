"""Pictures of a part of a timeline: SVG, Mermaid, and text for terminals."""
