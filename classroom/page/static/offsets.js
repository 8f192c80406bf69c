"use strict";
// The committed offsets: a row for each partition, a line that rises with each commit; red where one went back.

class OffsetsPicture {
  constructor(stage) { this.stage = stage; }

  draw(surface) {
    const { history, axis } = this.stage, { pen } = surface, head = look.size(20), row = look.size(44);
    axis.place(labelWidth(surface), surface.width - labelWidth(surface));
    surface.contentHeight = head + Math.max(2, history.offsets.length) * row + look.size(8);
    const first = Math.max(0, Math.floor(surface.scroll / row));
    const last = Math.min(history.offsets.length, Math.ceil((surface.scroll + surface.height - head) / row));
    for (let index = first; index < last; index++) this._row(pen, surface, history.offsets[index], head + index * row - surface.scroll, row);
    pen.fillStyle = look.colors.panel;
    pen.fillRect(0, 0, surface.width, head);
    drawTicks(pen, this.stage, surface, head);
    drawPlayhead(pen, this.stage, surface, head);
    if (!history.offsets.length) drawNote(pen, surface, word("noOffsets"));
  }

  click(x) { this.stage.goNear(x); }

  drag(dx) { this.stage.pan(dx); }

  zoom(factor, x) { this.stage.zoom(factor, x); }

  _row(pen, surface, row, top, height) {
    const { axis, history, cursor } = this.stage, width = labelWidth(surface), bottom = top + height - look.size(6);
    const highest = row.highest ?? (row.highest = row.spans.reduce((most, each) => Math.max(most, each.offset ?? 0), 1));
    const y = (offset) => bottom - (offset / highest) * (height - look.size(14));
    pen.strokeStyle = look.colors.grid;
    pen.lineWidth = 1;
    line(pen, axis.origin, Math.round(bottom) + 0.5, axis.origin + axis.width, Math.round(bottom) + 0.5);
    this._steps(pen, row.spans, y);
    pen.fillStyle = look.colors.panel;
    pen.fillRect(0, top, width, height);
    useFont(pen, 12, 600);
    pen.fillStyle = look.colors.ink;
    pen.fillText(shortened(pen, row.label, width - 18), 10, top + height / 2 - look.size(7));
    const now = row.spans[lastUpTo(row.spans, history.positions[cursor.index], (each) => each.began)];
    useFont(pen, 11);
    pen.fillStyle = look.colors.faint;
    pen.fillText(now ? `${now.offset ?? word("deleted")}` : word("none"), 10, top + height / 2 + look.size(9));
  }

  _steps(pen, spans, y) {
    const { axis } = this.stage, [from, to] = axis.visible();
    pen.strokeStyle = look.colors.accent;
    pen.lineWidth = 1.5;
    pen.beginPath();
    const backs = [];
    let before;
    for (let index = Math.max(0, lastUpTo(spans, from, (each) => each.beganAt)); index < spans.length; ) {
      const step = spans[index], x = axis.x(step.beganAt);
      if (before?.offset != null) {
        pen.lineTo(x, y(before.offset));
        if (step.offset !== null && step.offset < before.offset) backs.push([x, y(before.offset), y(step.offset)]);
      }
      if (step.offset !== null) before?.offset != null ? pen.lineTo(x, y(step.offset)) : pen.moveTo(x, y(step.offset));
      before = step;
      if (step.beganAt > to) break;
      index = Math.max(index + 1, lastUpTo(spans, axis.timeAt(x + 1), (each) => each.beganAt));
    }
    if (before?.offset != null) pen.lineTo(axis.origin + axis.width, y(before.offset));
    pen.stroke();
    pen.strokeStyle = look.colors.danger;
    pen.lineWidth = 3;
    for (const [x, above, below] of backs) line(pen, x, above, x, below);
  }
}
