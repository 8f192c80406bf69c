"use strict";
// What pictures with rows over time share: visible spans, the room for labels, times above, and the present.

/** The spans of a row that are visible, with their ends in pixels. Of many within one pixel only one is given. */
function* visibleSpans(spans, axis) {
  const [from, to] = axis.visible(), edge = axis.origin + axis.width, open = Math.min(edge, axis.openX ?? Infinity);
  for (let index = Math.max(0, lastUpTo(spans, from, (each) => each.beganAt)); index < spans.length; ) {
    const span = spans[index];
    if (span.beganAt > to) return;
    const left = Math.max(axis.x(span.beganAt), axis.origin - 4);
    const right = span.endedAt === null ? open : Math.min(axis.x(span.endedAt), edge + 4);
    if (right >= axis.origin) yield { span, left, right };
    const next = right - left < 0.8 ? lastUpTo(spans, axis.timeAt(left + 0.8), (each) => each.beganAt) : 0;
    index = Math.max(index + 1, next);
  }
}

/** The room at the left for labels. */
function labelWidth(surface) {
  return surface.width < 560 ? look.size(88) : look.size(160);
}

/** Times since the begin of the history, above a picture. */
function drawTicks(pen, stage, surface, height) {
  const { axis, history } = stage;
  useFont(pen, 10.5);
  pen.fillStyle = look.colors.faint;
  pen.strokeStyle = look.colors.grid;
  pen.lineWidth = 1;
  pen.textAlign = "left";
  for (const at of axis.ticks(look.size(82))) {
    const x = Math.round(axis.x(at)) + 0.5;
    if (x < axis.origin) continue;
    line(pen, x, height - 5, x, height);
    const text = sinceText(at - history.beganAt);
    if (x + 4 + textWidth(pen, text) < surface.width) pen.fillText(text, x + 3, height / 2 - 1);
  }
}

/** Clear the room for labels and the room above the rows, and draw the times there. */
function drawFrame(surface, stage, height) {
  const { pen } = surface;
  pen.fillStyle = look.colors.panel;
  pen.fillRect(0, 0, labelWidth(surface), surface.height);
  pen.fillRect(0, 0, surface.width, height);
  drawTicks(pen, stage, surface, height);
}

/** Call `draw`, which draws the labels of the rows; what does not fit into the room for labels is cut off. */
function drawLabels(surface, top, draw) {
  const { pen } = surface, { fontKey } = pen;
  pen.save();
  pen.beginPath();
  pen.rect(0, top, labelWidth(surface), surface.height - top);
  pen.clip();
  draw();
  pen.restore();
  pen.fontKey = fontKey;
}

/** The line of the present moment. */
function drawPlayhead(pen, stage, surface, top) {
  const { axis, cursor } = stage, x = Math.round(axis.x(cursor.at));
  if (x < axis.origin - 1 || x > axis.origin + axis.width + 1) return;
  pen.fillStyle = look.colors.accent;
  pen.fillRect(x - 0.5, top, 2, surface.height - top);
  pen.beginPath();
  pen.moveTo(x - 5, top - 7);
  pen.lineTo(x + 6, top - 7);
  pen.lineTo(x + 0.5, top + 1);
  pen.fill();
}
