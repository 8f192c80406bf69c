"use strict";
// The stage: the history that is shown, the present moment, and the pictures that show it.

const EDGE_TIME = 250;
/** A window that shows the whole of a growing history goes on to do so, as long as that can be read. */
const LEAST_SCALE = 0.15;

class Stage {
  constructor() {
    this.history = null;
    this.other = null;
    this.axis = new TimeAxis();
    this.cursor = { index: 0, at: 0 };
    this.isMoving = false;
    /** Since when no broker runs, `{ at }`, at the end of a history that is still being written; null otherwise. */
    this.outage = null;
    /** When sessions end by the coordinator, by member id, at the end of such a history; null otherwise. */
    this.sessionEnds = null;
    this.onMoment = () => {};
    this.onSettled = () => {};
    this.pictures = [];
  }

  /** Show a history from its beginning, or from the event at a position. */
  show(history, position) {
    this.history = history;
    this.axis.set(history);
    this.cursor = { index: 0, at: history.times[0] ?? history.beganAt };
    this.axis.begin();
    this.goTo(position === undefined ? 0 : Math.max(0, lastUpTo(history.positions, position)));
    this.settle();
  }

  /** The position of the present event. */
  get position() { return this.history?.positions[this.cursor.index]; }

  get isAtEnd() { return this.cursor.index >= this.history.length - 1; }

  /** Take in what has changed; the present moment stays, or moves to the new end if it was at the end. */
  extend(document) {
    const wasAtEnd = this.isAtEnd;
    this.history.take(document);
    this.axis.set(this.history);
    if (wasAtEnd) this.goTo(this.history.length - 1);
    this.settle();
    this.invalidate();
  }

  /** Let the present of a history that is still being written go on to a time; the present moment follows at the end. */
  goOn(at, follows) {
    const { axis, history } = this, now = Math.max(at, history.lastAt), showsAll = axis.left <= 0 && axis.right >= axis.end;
    axis.setNow(now);
    if (follows) {
      this.cursor = { index: history.length - 1, at: now };
      if (showsAll && (axis.width - 24) / axis.end >= LEAST_SCALE) axis.fit();
      else axis.follow(now);
    }
    this.invalidate();
  }

  goTo(index) {
    const place = Math.max(0, Math.min(this.history.length - 1, index));
    this._set(place, this.history.times[place]);
  }

  /** To the event at a position, and on to a time after it if one is given. */
  goToPosition(position, at = -Infinity) {
    const index = Math.max(0, lastUpTo(this.history.positions, position));
    this._set(index, Math.max(at, this.history.times[index]));
  }

  /** To the last event up to a time, and on to the time itself. */
  goToTime(at) {
    const index = Math.max(0, lastUpTo(this.history.times, at));
    this._set(index, Math.max(at, this.history.times[index]));
  }

  /** To the event that is nearest to a place on the axis. */
  goNear(x) { this.goNearTime(this.axis.timeAt(x)); }

  /** To the event that is nearest to a time, by the axis. */
  goNearTime(at) {
    const { axis, history } = this, after = lastUpTo(history.times, at), unit = axis.unitOf(at);
    const [one, other] = [Math.max(0, after), Math.min(history.length - 1, after + 1)];
    const isNearer = Math.abs(axis.unitOf(history.times[other]) - unit) < Math.abs(axis.unitOf(history.times[one]) - unit);
    this.goTo(isNearer ? other : one);
  }

  /** Let time run on by so many units of the axis; false at the end. */
  advance(units) {
    const { axis, history, cursor } = this;
    if (cursor.index >= history.length - 1) return false;
    const at = axis.isToScale ? axis.timeOf(axis.unitOf(cursor.at) + units / axis.scale) : axis.timeOf(axis.unitOf(cursor.at) + units);
    const index = Math.max(cursor.index, lastUpTo(history.times, at));
    this._set(index, Math.max(at, history.times[index]));
    return index < history.length - 1;
  }

  /** Go to the time of a request, and show it until the moment changes. */
  selectExchange(exchange) {
    this.goToTime(exchange.at);
    this.exchange = exchange;
    this.settle();
  }

  zoom(factor, x) {
    this.axis.zoom(factor, x ?? this._cursorX());
    this.invalidate();
  }

  pan(pixels) {
    this.axis.pan(pixels);
    this.invalidate();
  }

  fit() {
    this.axis.fit();
    this.invalidate();
  }

  toggleScale() {
    this.axis.toggleScale(this.cursor.at);
    this.invalidate();
  }

  invalidate() { for (const each of this.pictures) each.invalidate(); }

  /** Say that the moment stays: tables, the address and what is read out follow. */
  settle() {
    clearTimeout(this._timer);
    this.isMoving = false;
    if (this.history) this.onSettled();
  }

  _cursorX() {
    const x = this.axis.x(this.cursor.at), { origin, width } = this.axis;
    return x < origin || x > origin + width ? undefined : x;
  }

  _set(index, at) {
    const isQuick = performance.now() - (this._setAt ?? -Infinity) < EDGE_TIME;
    this._setAt = performance.now();
    this.cursor = { index, at };
    this.exchange = null;
    this.axis.follow(at);
    this.isMoving = isQuick;
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this.settle(), isQuick ? 200 : 0);
    this.onMoment();
    this.invalidate();
  }
}
