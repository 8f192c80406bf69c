"use strict";
// Colours, patterns and sizes of the pictures, for light and dark pages, and for the colour-blind.

// The colours of Okabe and Ito, in an order in which neighbours differ most; four patterns make 32 owners of them.
const OWNER_COLORS = ["#56b4e9", "#e69f00", "#33b58e", "#f0e442", "#dd92b9", "#e8824a", "#9daedb", "#bdbdbd"];
const STATE_COLORS = {
  Empty: "empty", PreparingRebalance: "preparing", CompletingRebalance: "completing", Assigning: "preparing", Reconciling: "completing", Stable: "stable", Dead: "none",
};

const look = {
  colors: {},
  /** Changes whenever colours or sizes do. */
  version: 0,
  scale: 1,
  /** A length in CSS pixels, larger in the large mode. */
  size(pixels) { return Math.round(pixels * this.scale); },
};

const FONT = 'system-ui, -apple-system, "Segoe UI", "Noto Sans", "Noto Sans CJK SC", "DejaVu Sans", sans-serif';

/** Set the font of a picture, unless it has it: browsers take long to parse one. */
function useFont(pen, pixels = 12, weight = 400) {
  const key = `${weight} ${look.size(pixels)}`;
  if (pen.fontKey === key) return;
  pen.fontKey = key;
  pen.font = `${key}px ${FONT}`;
}

/** Read the colours of the present theme from the style sheet. */
function readLook() {
  const style = getComputedStyle(document.documentElement);
  const names = ["back", "panel", "ink", "faint", "line", "grid", "accent", "danger", "join", "sync", "joinline", "syncline",
    "empty", "preparing", "completing", "stable", "none", "rebalance", "hatch", "generation", "bar"];
  look.colors = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  look.scale = document.documentElement.classList.contains("large") ? 1.5 : 1;
  look.version++;
  patterns.clear();
}

function stateColor(state) { return look.colors[STATE_COLORS[state] ?? "none"]; }

/** A state as people read it: a group that is Dead does not exist. */
function stateName(state) { return state; }

const patterns = new Map();

/** The fill of an owner: a colour, with lines over it for every other round of colours. */
function ownerFill(context, number) {
  const kind = (number + Math.floor(number / OWNER_COLORS.length)) % 4, color = OWNER_COLORS[number % OWNER_COLORS.length];
  if (kind === 0) return color;
  return linesPattern(context, color, kind);
}

/** Hatching for what has no owner. */
function gapFill(context) { return linesPattern(context, "transparent", 4); }

function linesPattern(context, back, kind) {
  const key = `${back}${kind}${look.scale}`;
  if (!patterns.has(key)) {
    const tile = document.createElement("canvas"), pen = tile.getContext("2d");
    tile.width = tile.height = 8;
    pen.fillStyle = back;
    if (back !== "transparent") pen.fillRect(0, 0, 8, 8);
    pen.strokeStyle = kind === 4 ? look.colors.hatch : "rgba(0, 0, 0, 0.26)";
    pen.lineWidth = kind === 4 ? 1.4 : 1;
    pen.beginPath();
    const lines = { 1: [[0, 4.5, 8, 4.5]], 2: [[4.5, 0, 4.5, 8]], 3: [[0, 0, 8, 8], [-4, 4, 4, 12], [4, -4, 12, 4]] };
    for (const [left, top, right, bottom] of lines[kind] ?? [[-2, 10, 10, -2], [-2, 2, 2, -2], [6, 10, 10, 6]]) {
      pen.moveTo(left, top);
      pen.lineTo(right, bottom);
    }
    pen.stroke();
    patterns.set(key, context.createPattern(tile, "repeat"));
  }
  return patterns.get(key);
}

/** The colour of an owner without its pattern, for what names stand on. */
function ownerColor(number) { return OWNER_COLORS[number % OWNER_COLORS.length]; }
