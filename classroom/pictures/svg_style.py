"""Colours and patterns of the SVG picture, for light and dark pages, and for the colour-blind.

The colours of owners are those of Okabe and Ito, which stay apart with any common colour blindness. Each owner has a
pattern besides, and its name stands in every bar in which it fits.
"""

from typing import Final

OWNER_COLORS: Final = ("#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#d55e00", "#8da0cb", "#b3b3b3")
PATTERNS: Final = ("", "M0 4H8", "M4 0V8", "M0 8L8 0")
"""Lines over an owner's colour, in a square of eight pixels; the first is plain."""
STATE_CLASSES: Final = {
    "Empty": "empty",
    "PreparingRebalance": "preparing",
    "CompletingRebalance": "completing",
    "Assigning": "preparing",
    "Reconciling": "completing",
    "Stable": "stable",
    "Dead": "none",
}

STYLE: Final = """
svg { font-family: system-ui, "Noto Sans", "DejaVu Sans", sans-serif; font-size: 11px; }
.back { fill: #ffffff; } .t { fill: #1b1f24; } .faint { fill: #57606a; } .head { fill: #1b1f24; font-weight: 600; }
.big { fill: #1b1f24; font-size: 15px; font-weight: 600; } .end { text-anchor: end; } .mid { text-anchor: middle; }
.on { fill: #111111; }
.lane { stroke: #57606a; stroke-width: 1.5; } .grid { stroke: #d0d7de; stroke-width: 1; }
.cut { stroke: #b3261e; stroke-width: 2.5; } .generation { fill: #eef1f4; stroke: #8c959f; }
.refused { fill: #ffffff; fill-opacity: 0.6; stroke: #b3261e; stroke-width: 2; }
.lost { stroke: #b3261e; stroke-width: 1.8; stroke-dasharray: 3 2; } .wrong { stroke: #b3261e; stroke-width: 1.8; }
.hit { fill: #000000; fill-opacity: 0; }
.border { stroke: #8c959f; stroke-width: 1; stroke-dasharray: 3 3; }
.rebalance { fill: #fff3d6; }
.empty { fill: #e3e7eb; } .preparing { fill: #ffd58a; } .completing { fill: #c9b8f0; } .stable { fill: #a8dcb5; }
.none { fill: none; stroke: #8c959f; }
.join { fill: #ffb000; stroke: #7a4d00; } .sync { fill: #9b7fe6; stroke: #3f2a7d; }
.gap { fill: url(#gap); stroke: #8c959f; } .twice { fill: none; stroke: #b3261e; stroke-width: 3; }
.revoking { fill: url(#gap); fill-opacity: 0.8; stroke: #8c959f; stroke-dasharray: 4 2; }
.owner { stroke: #57606a; stroke-width: 0.5; } .given { stroke: #57606a; stroke-width: 0.5; fill-opacity: 0.35; }
.hatch { stroke: #6e7781; stroke-width: 1.6; fill: none; } .lines { stroke: #000000; stroke-opacity: 0.28; fill: none; }
@media (prefers-color-scheme: dark) {
.back { fill: #14171c; } .t, .head, .big { fill: #e8eaed; } .faint { fill: #a3abb5; }
.lane { stroke: #a3abb5; } .grid { stroke: #2f363f; } .cut { stroke: #ff7b72; }
.generation { fill: #232932; stroke: #6e7781; } .rebalance { fill: #3a2f16; } .hatch { stroke: #a3abb5; }
.twice { stroke: #ff7b72; } .lost, .wrong { stroke: #ff7b72; } .refused { stroke: #ff7b72; fill: #14171c; }
.empty { fill: #8b949e; }
}
"""


def owner_css(index: int) -> str:
    """The CSS class of the bars of the owner with this index."""
    return f"owner{index}"


def owner_style(count: int) -> str:
    """The CSS rules for the bars of `count` owners."""
    return "\n".join(f".owner{index} {{ fill: {OWNER_COLORS[index % len(OWNER_COLORS)]}; }}" for index in range(count))


def pattern_of(index: int) -> int:
    """The number of the pattern for the owner with this index. Owners with the same colour have different patterns."""
    return (index + index // len(OWNER_COLORS)) % len(PATTERNS)


def pattern_definitions() -> str:
    """The SVG definitions of the owners' patterns, and of the hatching for partitions without an owner."""
    square = 'width="8" height="8" patternUnits="userSpaceOnUse"'
    lines = [
        f'<pattern id="lines{index}" {square}><path d="{path}" class="lines"/></pattern>'
        for index, path in enumerate(PATTERNS)
        if path
    ]
    hatch = f'<pattern id="gap" {square}><path d="M-2 10L10 -2M-2 2L2 -2M6 10L10 6" class="hatch"/></pattern>'
    return "".join([*lines, hatch])
