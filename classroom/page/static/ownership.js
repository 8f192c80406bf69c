"use strict";
// The ownership: a row for each partition, coloured by its owner, hatched without one, red with two.

class OwnershipPicture {
  constructor(stage) { this.stage = stage; }

  place(surface) {
    const { history, axis } = this.stage, head = look.size(20);
    axis.place(labelWidth(surface), surface.width - labelWidth(surface));
    this.row = look.size(history.rows.length <= 60 ? 22 : history.rows.length <= 300 ? 15 : 7);
    surface.contentHeight = head + Math.max(2, history.rows.length) * this.row + look.size(6);
    this.first = Math.max(0, Math.floor(surface.scroll / this.row));
    this.last = Math.min(history.rows.length, Math.ceil((surface.scroll + surface.height - head) / this.row));
  }

  drawStill(surface) {
    const { history, axis } = this.stage, { pen } = surface, head = look.size(20);
    this._background(pen, surface);
    for (let index = this.first; index < this.last; index++) {
      const row = history.rows[index], top = head + index * this.row - surface.scroll;
      for (const each of visibleSpans(row.spans, axis)) this._span(pen, each, top);
      for (const each of visibleSpans(history.views.get(row.label) ?? [], axis)) this._view(pen, each, top);
    }
    drawFrame(surface, this.stage, head);
    if (!history.rows.length) drawNote(pen, surface, word("noPartitions"));
  }

  drawNow(surface) {
    const { pen } = surface, head = look.size(20);
    drawLabels(surface, head, () => {
      for (let index = this.first; index < this.last; index++) {
        this._label(pen, surface, this.stage.history.rows[index], index, head + index * this.row - surface.scroll);
      }
    });
    drawPlayhead(pen, this.stage, surface, head);
  }

  click(x, y, surface) {
    const row = this.stage.history.rows[Math.floor((y - look.size(20) + surface.scroll) / this.row)];
    if (row && y > look.size(20)) {
      for (const { span, left } of visibleSpans(row.spans, this.stage.axis)) {
        if (Math.abs(x - left) < 5) return this.stage.goToPosition(span.began);
      }
    }
    return this.stage.goNear(x);
  }

  drag(dx) { this.stage.pan(dx); }

  zoom(factor, x) { this.stage.zoom(factor, x); }

  _background(pen, surface) {
    pen.fillStyle = look.colors.rebalance;
    for (const { left, right } of visibleSpans(this.stage.history.rebalances, this.stage.axis)) {
      pen.fillRect(left, 0, Math.max(1, right - left), surface.height);
    }
  }

  _span(pen, { span, left, right }, top) {
    const { history } = this.stage, gap = this.row > 10 ? 2 : this.row > 5 ? 1 : 0, bottom = top + this.row - gap;
    const members = span.owners.length ? span.owners : span.assigned, share = (bottom - top - gap) / Math.max(1, members.length);
    pen.globalAlpha = span.owners.length ? 1 : 0.3;
    members.forEach((member, place) => {
      pen.fillStyle = (span.owners.length ? ownerFill : (_, number) => ownerColor(number))(pen, history.colorOf(member));
      box(pen, left, top + gap + share * place, right, top + gap + share * (place + 1));
    });
    pen.globalAlpha = 1;
    if (!span.owners.length) {
      pen.fillStyle = gapFill(pen);
      box(pen, left, top + gap, right, bottom);
      if (this.row > 10) {
        pen.strokeStyle = look.colors.hatch;
        pen.lineWidth = 1;
        frame(pen, left, top + gap, right, bottom);
      }
    } else if (span.isRevoked) {
      pen.fillStyle = gapFill(pen);
      box(pen, left, (top + bottom) / 2, right, bottom);
      if (this.row >= 13) this._name(pen, span, left, right, top, (top + bottom) / 2 + 4);
    } else if (span.owners.length > 1) {
      pen.strokeStyle = look.colors.danger;
      pen.lineWidth = 3;
      pen.strokeRect(left + 1.5, top + gap + 1.5, Math.max(1, right - left - 3), bottom - top - gap - 3);
    } else if (this.row >= 13) this._name(pen, span, left, right, top, bottom);
  }

  /** What members believe: a strip below the coordinator's view; red where two believe that they own the partition. */
  _view(pen, { span, left, right }, top) {
    const { history } = this.stage, bottom = top + this.row - 1, high = this.row > 10 ? 4 : 2;
    pen.fillStyle = look.colors.panel;
    box(pen, left, bottom - high - 2, right, bottom - high);
    span.members.forEach((member, place) => {
      pen.fillStyle = ownerFill(pen, history.colorOf(member));
      const share = high / span.members.length;
      pen.fillRect(left, bottom - high + share * place, Math.max(1, right - left), share);
    });
    if (span.members.length < 2) return;
    pen.strokeStyle = look.colors.danger;
    pen.lineWidth = 3;
    pen.strokeRect(left + 1.5, top + 2.5, Math.max(1, right - left - 3), this.row - 5);
  }

  /** The owner's name, on its plain colour: the lines of a pattern would strike it out. */
  _name(pen, span, left, right, top, bottom) {
    const { history, axis } = this.stage, from = Math.max(left, axis.origin), name = history.nameOf(span.owners[0]);
    useFont(pen, Math.min(11, this.row / look.scale - 3));
    const text = right - from < 24 ? "" : shortened(pen, name, right - from - 10);
    if (!text) return;
    pen.fillStyle = ownerColor(history.colorOf(span.owners[0]));
    pen.fillRect(from + 1, top + 3, textWidth(pen, text) + 7, bottom - top - 4);
    pen.fillStyle = "#141414";
    pen.fillText(text, from + 5, (top + bottom) / 2 + 1);
  }

  _label(pen, surface, row, index, top) {
    const width = labelWidth(surface), every = Math.ceil(look.size(12) / this.row);
    if (index % every) return;
    const position = this.stage.history.positions[this.stage.cursor.index], span = this.stage.history.spanAt(row.spans, position);
    useFont(pen, Math.max(9, Math.min(12, this.row / look.scale - 3)), 400);
    pen.fillStyle = span && !span.owners.length ? look.colors.danger : look.colors.ink;
    pen.fillText(shortened(pen, row.label, width - 18), 10, top + (every > 1 ? look.size(6) : this.row / 2 + 0.5));
  }
}

/** A sentence in the middle of a picture that has nothing to show. */
function drawNote(pen, surface, text) {
  useFont(pen, 13);
  pen.fillStyle = look.colors.faint;
  pen.textAlign = "center";
  pen.fillText(text, surface.width / 2, surface.height / 2);
  pen.textAlign = "left";
}
