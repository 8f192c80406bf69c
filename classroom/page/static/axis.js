"use strict";
// Time on the x axis. By steps, every event can be seen: short steps are stretched, long ones shortened. Or to scale.

const LEAST_STEP = 9;
const LONGEST_STEP = 420;

class TimeAxis {
  constructor() {
    this.times = [0]; this.units = [0];
    this.isToScale = false;
    this.nowAt = null;
    this.followedAt = null;
    this.left = 0; this.scale = 1; this.origin = 0; this.width = 1; this.end = 1; this.tail = 0;
  }

  /** Take over the times of a history; the window stays where it was. */
  set(history) {
    const times = [];
    for (const at of history.times) if (at !== times[times.length - 1]) times.push(at);
    if (!times.length) times.push(history.beganAt);
    if (times[0] > history.beganAt) times.unshift(history.beganAt);
    this.times = times;
    this._measure();
  }

  toggleScale(at) {
    const shownTime = (this.right - this.left) / Math.max(1e-9, this.end);
    this.isToScale = !this.isToScale;
    this._measure();
    this.scale = this.width / Math.max(1e-9, this.end * Math.min(1, shownTime));
    this.center(at);
  }

  _measure() {
    const { times } = this, units = new Float64Array(times.length);
    for (let index = 1; index < times.length; index++) units[index] = units[index - 1] + this._unitsOf(times[index] - times[index - 1]);
    this.units = units;
    this._measureTail();
  }

  _unitsOf(step) { return this.isToScale ? step : Math.min(LONGEST_STEP, LEAST_STEP + 2.2 * Math.sqrt(step)); }

  /** Go on behind the last time, up to the present of a history that is still being written; null for none. */
  setNow(at) {
    this.nowAt = at;
    this._measureTail();
  }

  _measureTail() {
    const { times, units } = this, passed = this.nowAt === null ? 0 : this.nowAt - times[times.length - 1];
    this.tail = passed > 0 ? this._unitsOf(passed) : 0;
    this.end = Math.max(1, units[units.length - 1] + this.tail);
  }

  /** The unit of the last event. */
  get lastUnit() { return this.units[this.units.length - 1]; }

  /** Where what has not ended ends for the time being: in the present, also while the last event is the present. */
  get openX() { return this.nowAt === null ? Infinity : this.x(Math.max(this.nowAt, this.times[this.times.length - 1])); }

  get right() { return this.left + this.width / this.scale; }

  /** The room for the picture: from `origin`, so many pixels. */
  place(origin, width) {
    const isFirst = this.width === 1;
    this.origin = origin;
    if (this.width === width) return;
    this.width = Math.max(50, width);
    if (isFirst) {
      this.begin();
      // A moment that was chosen before there was any room comes into view now.
      if (this.followedAt !== null) this.follow(this.followedAt);
    } else this._clamp();
  }

  /** Show everything, if it is not too much; otherwise as much from the beginning as can be read. */
  begin() {
    this.fit();
    if (!this.isToScale && this.scale < 0.1) { this.scale = 0.6; this.left = -8 / this.scale; }
  }

  fit() {
    this.scale = (this.width - 24) / this.end;
    this.left = -8 / this.scale;
  }

  zoom(factor, x = this.origin + this.width / 2) {
    const unit = this.left + (x - this.origin) / this.scale;
    const least = (this.width - 24) / this.end, most = this.isToScale ? 40 : 30;
    this.scale = Math.max(Math.min(least, most), Math.min(most, this.scale * factor));
    this.left = unit - (x - this.origin) / this.scale;
    this._clamp();
  }

  pan(pixels) {
    this.left -= pixels / this.scale;
    this._clamp();
  }

  center(at) {
    this.left = this.unitOf(at) - this.width / this.scale / 2;
    this._clamp();
  }

  /** Move the window so that a time is visible, with some room around it. */
  follow(at) {
    this.followedAt = at;
    const x = this.x(at), room = Math.min(60, this.width / 5);
    if (x > this.origin + this.width - room) this.left = this.unitOf(at) - (this.width * 0.4) / this.scale;
    else if (x < this.origin + room) this.left = this.unitOf(at) - (this.width * 0.6) / this.scale;
    else return;
    this._clamp();
  }

  _clamp() {
    const margin = 16 / this.scale, most = this.end + margin - this.width / this.scale;
    this.left = Math.max(Math.min(-margin / 2, most), Math.min(this.left, Math.max(most, -margin / 2)));
  }

  unitOf(at) {
    const { times, units } = this, index = lastUpTo(times, at);
    if (index < 0) return units[0];
    if (index >= times.length - 1) {
      const last = times.length - 1;
      return units[last] + (this.tail ? this.tail * Math.min(1, (at - times[last]) / (this.nowAt - times[last])) : 0);
    }
    const share = (at - times[index]) / (times[index + 1] - times[index]);
    return units[index] + share * (units[index + 1] - units[index]);
  }

  timeOf(unit) {
    const { times, units } = this, index = lastUpTo(units, unit);
    if (index < 0) return times[0];
    if (index >= times.length - 1) {
      const last = times.length - 1;
      return times[last] + (this.tail ? Math.min(1, (unit - units[last]) / this.tail) * (this.nowAt - times[last]) : 0);
    }
    const share = (unit - units[index]) / (units[index + 1] - units[index]);
    return times[index] + share * (times[index + 1] - times[index]);
  }

  x(at) { return this.origin + (this.unitOf(at) - this.left) * this.scale; }

  timeAt(x) { return this.timeOf(this.left + (x - this.origin) / this.scale); }

  /** The first and the last visible time. */
  visible() { return [this.timeOf(this.left), this.timeOf(this.right)]; }

  /** Times for labels, at least so many pixels apart. */
  *ticks(distance) {
    if (this.isToScale) {
      const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5, 216e5, 864e5];
      const step = steps.find((each) => each * this.scale >= distance) ?? 864e5, first = this.times[0];
      const [from, to] = this.visible();
      for (let at = first + Math.ceil((from - first) / step) * step; at <= to; at += step) yield at;
      return;
    }
    let before = -Infinity;
    for (let index = Math.max(0, lastUpTo(this.units, this.left)); index < this.times.length; ) {
      const x = this.origin + (this.units[index] - this.left) * this.scale;
      if (x > this.origin + this.width) return;
      if (x >= this.origin - 1 && x - before >= distance) { yield this.times[index]; before = x; }
      const next = lastUpTo(this.units, this.left + (Math.max(before + distance, this.origin) - this.origin) / this.scale);
      index = Math.max(index + 1, next);
    }
  }
}
