"use strict";
// Two histories on one time axis, each from its own begin: states, rebalances, and partitions without an owner.

class ComparePicture {
  constructor(stage) {
    this.stage = stage;
    this.axis = new TimeAxis();
    this.axis.isToScale = true;
  }

  /** The histories that are compared: the one that is shown, and the one beside it. */
  get pair() { return [this.stage.history, this.stage.other].filter(Boolean); }

  draw(surface) {
    const { pen } = surface, { axis } = this, pair = this.pair, head = look.size(20);
    surface.contentHeight = head + look.size(pair.length < 2 ? 230 : 380);
    const longest = Math.max(...pair.map((each) => each.lastAt - each.beganAt), 1);
    if (this._longest !== longest) {
      this._longest = longest;
      axis.times = [0, longest];
      axis._measure();
      this._fitted = false;
    }
    const isNew = axis.width === 1;
    axis.place(labelWidth(surface), surface.width - labelWidth(surface));
    if (isNew || !this._fitted) { axis.fit(); this._fitted = true; }
    const height = Math.min(look.size(190), pair.length < 2 ? surface.height - head - look.size(40) : (surface.height - head) / 2);
    pair.forEach((history, index) => this._history(pen, surface, history, head + index * height, height));
    pen.fillStyle = look.colors.panel;
    pen.fillRect(0, 0, surface.width, head);
    drawTicks(pen, { axis, history: { beganAt: 0 } }, surface, head);
    drawPlayhead(pen, { axis, cursor: { at: this.stage.cursor.at - this.stage.history.beganAt } }, surface, head);
    if (pair.length < 2) {
      useFont(pen, 13);
      pen.fillStyle = look.colors.faint;
      pen.fillText(word("needsTwo"), 12, head + height + look.size(20));
    }
  }

  click(x) { this.stage.goToTime(this.stage.history.beganAt + this.axis.timeAt(x)); }

  drag(dx) { this.axis.pan(dx); this.stage.invalidate(); }

  zoom(factor, x) { this.axis.zoom(factor, x); this.stage.invalidate(); }

  _history(pen, surface, history, top, height) {
    const { axis } = this, began = history.beganAt, width = labelWidth(surface), row = look.size(22);
    const relative = (spans) => visibleSpans(spans, { ...bound(axis), x: (at) => axis.x(at - began), timeAt: (x) => axis.timeAt(x) + began,
      visible: () => axis.visible().map((each) => each + began) });
    const end = axis.x(history.lastAt - began), edge = (span, right) => (span.endedAt === null ? Math.min(right, end) : right);
    pen.fillStyle = look.colors.rebalance;
    for (const { span, left, right } of relative(history.rebalances)) pen.fillRect(left, top, Math.max(1, edge(span, right) - left), height - 6);
    for (const { span, left, right } of relative(history.stateSpans)) {
      pen.fillStyle = stateColor(span.state);
      box(pen, left, top + look.size(26), edge(span, right), top + look.size(26) + row - 4);
      useFont(pen, 11);
      pen.fillStyle = "#141414";
      const from = Math.max(left, axis.origin), text = fitting(pen, [span.state, span.state.replace("Rebalance", "")], edge(span, right) - from - 6);
      if (text) pen.fillText(text, from + 4, top + look.size(26) + row / 2 - 2);
    }
    this._unowned(pen, history, top + look.size(54), top + height - look.size(14));
    pen.fillStyle = look.colors.panel;
    pen.fillRect(0, top, width, height);
    pen.fillStyle = look.colors.ink;
    useFont(pen, 12, 600);
    pen.fillText(shortened(pen, `${history.label}`, surface.width - 20), 10, top + look.size(12));
    pen.fillStyle = look.colors.faint;
    useFont(pen, 11);
    pen.fillText(shortened(pen, history.group, width - 14), 10, top + look.size(36));
    pen.fillText(shortened(pen, word("unowned"), width - 14), 10, top + look.size(64));
    pen.fillText(`0–${this._most(history)}`, 10, top + look.size(80));
  }

  /** How many partitions had no owner, as an area over time. */
  _unowned(pen, history, top, bottom) {
    const { axis } = this, steps = unownedSteps(history), most = this._most(history);
    pen.fillStyle = look.colors.danger;
    steps.forEach(([at, count], index) => {
      const until = index + 1 < steps.length ? steps[index + 1][0] : history.lastAt;
      if (!count) return;
      const left = axis.x(at - history.beganAt), right = axis.x(until - history.beganAt);
      pen.globalAlpha = 0.75;
      pen.fillRect(left, bottom - (count / most) * (bottom - top), Math.max(1, right - left), (count / most) * (bottom - top));
    });
    pen.globalAlpha = 1;
    pen.strokeStyle = look.colors.line;
    pen.lineWidth = 1;
    line(pen, axis.origin, Math.round(bottom) + 0.5, axis.x(history.lastAt - history.beganAt), Math.round(bottom) + 0.5);
  }

  /** One measure for both, so that their heights can be compared. */
  _most() {
    return Math.max(1, ...this.pair.map((each) => unownedSteps(each).reduce((most, [, count]) => Math.max(most, count), 0)));
  }
}

function bound({ origin, width }) { return { origin, width }; }

const unownedOf = new WeakMap();

/** Times at which the number of partitions without an owner changed, with that number. */
function unownedSteps(history) {
  const known = unownedOf.get(history);
  if (known?.through === history.through) return known.steps;
  const changes = new Map();
  for (const row of history.rows) {
    for (const span of row.spans) {
      if (span.owners.length) continue;
      changes.set(span.beganAt, (changes.get(span.beganAt) ?? 0) + 1);
      if (span.endedAt !== null) changes.set(span.endedAt, (changes.get(span.endedAt) ?? 0) - 1);
    }
  }
  let count = 0;
  const steps = [...changes].sort(([one], [other]) => one - other).map(([at, change]) => [at, (count += change)]);
  unownedOf.set(history, { through: history.through, steps });
  return steps;
}
