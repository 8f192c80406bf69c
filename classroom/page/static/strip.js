"use strict";
// The strip above the scrubber: the whole history in one line, with its rebalances, states and events.

class StripPicture {
  constructor(stage) {
    this.stage = stage;
    this.axis = new TimeAxis();
  }

  draw(surface) {
    const { history, axis, cursor } = this.stage, { pen, width, height } = surface;
    this._follow(history, axis, width);
    this._still(surface);
    pen.drawImage(this._cache, 0, 0, width, height);
    const from = Math.max(0, this.axis.x(axis.timeOf(axis.left))), to = Math.min(width, this.axis.x(axis.timeOf(axis.right)));
    pen.fillStyle = look.colors.accent;
    pen.globalAlpha = 0.12;
    pen.fillRect(from, 0, Math.max(3, to - from), height);
    pen.globalAlpha = 1;
    pen.strokeStyle = look.colors.accent;
    pen.lineWidth = 1;
    frame(pen, from, 0, Math.max(from + 3, to), height);
    pen.fillRect(Math.round(this.axis.x(cursor.at)) - 1, 0, 2, height);
  }

  click(x) { this.stage.goToTime(this.axis.timeAt(x)); }

  drag(dx) { this.stage.goToTime(this.axis.timeAt(this.axis.x(this.stage.cursor.at) + dx)); }

  _follow(history, axis, width) {
    if (this._of !== history || this._through !== history.through || this.axis.isToScale !== axis.isToScale || this.axis.width !== width) {
      this._of = history; this._through = history.through;
      this.axis.isToScale = axis.isToScale;
      this.axis.set(history);
      this.axis.width = 1;
      this.axis.place(0, width);
      this.axis.scale = width / this.axis.end;
      this.axis.left = 0;
      this._cache = null;
    }
  }

  /** What does not change with the moment is drawn once. */
  _still(surface) {
    const { width, height } = surface, ratio = window.devicePixelRatio || 1, key = `${width} ${height} ${ratio} ${look.colors.ink}`;
    if (this._cache && this._key === key) return;
    this._key = key;
    this._cache = document.createElement("canvas");
    this._cache.width = Math.round(width * ratio); this._cache.height = Math.round(height * ratio);
    const pen = this._cache.getContext("2d"), { history } = this.stage;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = look.colors.back;
    pen.fillRect(0, 0, width, height);
    for (const { span, left, right } of visibleSpans(history.stateSpans, this.axis)) {
      pen.fillStyle = stateColor(span.state);
      box(pen, left, height - 8, right, height);
    }
    this._density(pen, history, width, height - 10);
  }

  /** How many events there are in each pixel, by the root of their number. */
  _density(pen, history, width, height) {
    const counts = new Uint32Array(Math.ceil(width) + 1);
    for (const at of history.times) counts[Math.max(0, Math.min(counts.length - 1, Math.floor(this.axis.x(at))))]++;
    const most = counts.reduce((one, other) => Math.max(one, other), 1);
    pen.fillStyle = look.colors.bar;
    counts.forEach((count, x) => {
      if (!count) return;
      const tall = Math.max(3, (Math.sqrt(count) / Math.sqrt(most)) * (height - 2));
      pen.fillRect(x, height - tall, 1, tall);
    });
  }
}
