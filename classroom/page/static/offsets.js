"use strict";
// Offsets and lag: a row for each partition, a line that rises with each commit, and above it the end of the log, as far as
// recorded; between them is the lag. Red is where an offset went back, and where records were read twice.

class OffsetsPicture {
  constructor(stage) { this.stage = stage; }

  place(surface) {
    const { history, axis } = this.stage, head = look.size(20);
    this.row = look.size(60);
    axis.place(labelWidth(surface), surface.width - labelWidth(surface));
    surface.contentHeight = head + Math.max(2, history.offsets.length) * this.row + look.size(8);
    this.first = Math.max(0, Math.floor(surface.scroll / this.row));
    this.last = Math.min(history.offsets.length, Math.ceil((surface.scroll + surface.height - head) / this.row));
  }

  drawStill(surface) {
    const { history } = this.stage, { pen } = surface, head = look.size(20);
    for (let index = this.first; index < this.last; index++) this._row(pen, history.offsets[index], head + index * this.row - surface.scroll);
    drawFrame(surface, this.stage, head);
    if (!history.offsets.length) drawNote(pen, surface, word("noOffsets"));
  }

  drawNow(surface) {
    const { pen } = surface, head = look.size(20);
    drawLabels(surface, head, () => {
      for (let index = this.first; index < this.last; index++) {
        this._label(pen, surface, this.stage.history.offsets[index], head + index * this.row - surface.scroll);
      }
    });
    drawPlayhead(pen, this.stage, surface, head);
  }

  click(x) { this.stage.goNear(x); }

  drag(dx) { this.stage.pan(dx); }

  zoom(factor, x) { this.stage.zoom(factor, x); }

  _label(pen, surface, row, top) {
    const width = labelWidth(surface) - 18, { step, end, lag, twice } = logAt(row, this.stage);
    const text = (words, line, weight = 400) => {
      useFont(pen, line ? 11 : 12, weight);
      pen.fillText(shortened(pen, words, width), 10, top + look.size(12 + 15 * line));
    };
    pen.fillStyle = look.colors.ink;
    text(row.label, 0, 600);
    pen.fillStyle = look.colors.faint;
    text(step ? `${step.offset ?? word("deleted")}${end === null ? "" : ` / ${end}`}` : word("none"), 1);
    text(lag === null ? "" : `${word("lag")} ${lag}`, 2);
    pen.fillStyle = look.colors.danger;
    text(twice ? `${word("readTwice")} ${twice}` : "", 3);
  }

  _row(pen, row, top) {
    const { axis } = this.stage, bottom = top + this.row - look.size(8);
    row.highest ??= Math.max(1, ...[row.spans, row.ends].map((list) => list.reduce((most, each) => Math.max(most, each.offset ?? 0), 0)));
    const y = (offset) => bottom - (offset / row.highest) * (this.row - look.size(18));
    pen.strokeStyle = look.colors.grid;
    pen.lineWidth = 1;
    line(pen, axis.origin, Math.round(bottom) + 0.5, axis.origin + axis.width, Math.round(bottom) + 0.5);
    this._end(pen, row.ends, y, bottom);
    this._steps(pen, row.spans, y, row.ends.length ? bottom : null);
    this._reads(pen, row.reads, bottom);
  }

  /** The end of the log, and the whole of it below; what is committed is drawn over it. */
  _end(pen, ends, y, bottom) {
    const { axis } = this.stage, [from, to] = axis.visible(), open = Math.min(axis.openX, axis.origin + axis.width);
    let index = Math.max(0, lastUpTo(ends, from, (each) => each.at));
    if (!ends.length || ends[index].at > to) return;
    const left = axis.x(ends[index].at);
    pen.beginPath();
    pen.moveTo(left, y(ends[index].offset));
    let before = ends[index];
    while (index < ends.length && before.at <= to) {
      const x = axis.x(ends[index].at);
      pen.lineTo(x, y(before.offset));
      pen.lineTo(x, y(ends[index].offset));
      before = ends[index];
      index = Math.max(index + 1, lastUpTo(ends, axis.timeAt(x + 1), (each) => each.at));
    }
    pen.lineTo(open, y(before.offset));
    pen.strokeStyle = look.colors.bar;
    pen.lineWidth = 1.5;
    pen.stroke();
    pen.lineTo(open, bottom);
    pen.lineTo(left, bottom);
    pen.fillStyle = look.colors.preparing;
    pen.globalAlpha = 0.55;
    pen.fill();
    pen.globalAlpha = 1;
  }

  /** The committed offset; with a bottom what lies below is covered, so that the lag alone stays in colour. */
  _steps(pen, spans, y, bottom) {
    const { axis } = this.stage, [from, to] = axis.visible(), open = Math.min(axis.openX, axis.origin + axis.width);
    const lines = [], backs = [];
    let points = null, before;
    for (let index = Math.max(0, lastUpTo(spans, from, (each) => each.beganAt)); index < spans.length; ) {
      const step = spans[index], x = axis.x(step.beganAt);
      if (before?.offset != null) {
        points.push([x, y(before.offset)]);
        if (step.offset !== null && step.offset < before.offset) backs.push([x, y(before.offset), y(step.offset)]);
      }
      if (step.offset === null) points = null;
      else if (points) points.push([x, y(step.offset)]);
      else lines.push((points = [[x, y(step.offset)]]));
      before = step;
      if (step.beganAt > to) break;
      index = Math.max(index + 1, lastUpTo(spans, axis.timeAt(x + 1), (each) => each.beganAt));
    }
    if (before?.offset != null) points.push([open, y(before.offset)]);
    for (const each of lines) this._line(pen, each, bottom);
    pen.strokeStyle = look.colors.danger;
    pen.lineWidth = 3;
    for (const [x, above, below] of backs) line(pen, x, above, x, below);
  }

  _line(pen, points, bottom) {
    const path = () => { pen.beginPath(); for (const [x, y] of points) pen.lineTo(x, y); };
    path();
    if (bottom !== null) {
      pen.lineTo(points[points.length - 1][0], bottom);
      pen.lineTo(points[0][0], bottom);
      pen.fillStyle = look.colors.panel;
      pen.fill();
      path();
    }
    pen.strokeStyle = look.colors.accent;
    pen.lineWidth = 1.5;
    pen.stroke();
  }

  /** A mark on the ground for each time at which records were read again; those of one pixel as one. */
  _reads(pen, reads, bottom) {
    const { axis } = this.stage, [from, to] = axis.visible();
    pen.fillStyle = look.colors.danger;
    for (let index = Math.max(0, lastUpTo(reads, from - 1, (each) => each.at)); index < reads.length && reads[index].at <= to; ) {
      const x = axis.x(reads[index].at);
      if (x >= axis.origin - 2) pen.fillRect(Math.round(x) - 1, bottom - 2, 3, look.size(7));
      index = Math.max(index + 1, lastUpTo(reads, axis.timeAt(x + 1), (each) => each.at) + 1);
    }
  }
}
