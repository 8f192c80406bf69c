"use strict";
// The sequence: a lane for the coordinator and for each member, time to the right, held requests as bars.

const MAX_ARROWS = 160;
const END_NAMES = { "member-left": "left", "member-removed": "removed", "static-member-replaced": "replaced", "static-consumer-replaced": "replaced" };
const DOTS = [
  [/^(rebalance-started|join-phase)/, "joinline"], [/^(generation|assignment)/, "syncline"],
  [/^(member-(left|removed)|append-(failed|timed))/, "danger"], [/^(coordinator-loaded|group-)/, "ink"],
];

const dotColors = new Map();

/** The colour of an event's dot, and how much it counts beside others in the same pixel. */
function dotOf(type) {
  if (!dotColors.has(type)) {
    const place = DOTS.findIndex(([pattern]) => pattern.test(type));
    dotColors.set(type, place < 0 ? { color: "bar", weight: 0 } : { color: DOTS[place][1], weight: 1 + place });
  }
  return dotColors.get(type);
}

class SequencePicture {
  constructor(stage) { this.stage = stage; }

  place(surface) {
    const { history, axis } = this.stage, head = this._headHeight();
    this.row = look.size(24);
    axis.place(labelWidth(surface), surface.width - labelWidth(surface));
    this.lanes = this._visibleLanes(history, axis);
    surface.contentHeight = head + this.lanes.length * this.row + look.size(6);
    this.first = Math.max(0, Math.floor(surface.scroll / this.row));
    this.last = Math.min(this.lanes.length, Math.ceil((surface.scroll + surface.height - head) / this.row));
    this.top = (index) => head + index * this.row - surface.scroll;
  }

  drawStill(surface) {
    const { pen } = surface, head = this._headHeight(), arrows = [];
    this._background(pen, surface);
    for (let index = this.first; index < this.last; index++) this._lane(pen, this.lanes[index], this.top(index), arrows);
    if (arrows.length <= MAX_ARROWS) for (const arrow of arrows) this._arrow(pen, arrow, head);
    pen.fillStyle = look.colors.panel;
    pen.fillRect(0, head, labelWidth(surface), surface.height - head);
    this._head(pen, surface, head);
  }

  drawNow(surface) {
    const { pen } = surface, head = this._headHeight();
    drawLabels(surface, head, () => {
      // One font after the other: browsers take long to change it.
      const position = this.stage.history.positions[this.stage.cursor.index];
      const isMember = (lane) => lane.began <= position && (lane.ended === null || position < lane.ended);
      for (const wanted of [true, false]) {
        useFont(pen, 12, wanted ? 600 : 400);
        for (let index = this.first; index < this.last; index++) {
          if (isMember(this.lanes[index]) === wanted) this._label(pen, surface, this.lanes[index], this.top(index), wanted);
        }
      }
    });
    this._present(pen, head);
    this._outage(pen);
    drawPlayhead(pen, this.stage, surface, look.size(20));
  }

  click(x, y, surface) {
    const { stage } = this, head = this._headHeight();
    const lane = y > head ? this.lanes[Math.floor((y - head + surface.scroll) / this.row)] : undefined;
    if (lane && x > stage.axis.origin) {
      const near = stage.history.exchangesByLane.get(lane.number).find((each) => isIncident(each) && Math.abs(stage.axis.x(markedAt(each)) - x) < 6);
      if (near) return stage.selectExchange(near);
      for (const { span, left, right } of visibleSpans(stage.history.heldByMember.get(lane.member) ?? [], stage.axis)) {
        if (x >= left - 3 && x <= Math.max(right, left + 4) + 3) {
          const atEnd = span.ended !== null && right - left > 12 && x > right - 6;
          return stage.goToPosition(atEnd ? span.ended : span.began);
        }
      }
    }
    return stage.goNear(x);
  }

  /** Scroll to the lane of the member that the present event is about. */
  reveal(surface) {
    const { history, cursor } = this.stage, member = history.eventOf(cursor.index).member_id;
    const index = member ? this.lanes?.findIndex((lane) => lane.member === member) ?? -1 : -1, head = this._headHeight();
    if (index < 0 || surface.host.scrollHeight <= surface.height) return;
    const top = index * this.row, room = surface.height - head - this.row;
    if (top < surface.scroll || top > surface.scroll + room) surface.host.scrollTop = top - room / 2;
  }

  drag(dx) { this.stage.pan(dx); }

  zoom(factor, x) { this.stage.zoom(factor, x); }

  _headHeight() { return look.size(20 + 22 + 20 + 26); }

  _visibleLanes(history, axis) {
    if (history.lanes.length <= 30) return history.lanes;
    const [from, to] = axis.visible();
    return history.lanes.filter((lane) => lane.beganAt <= to && (lane.endedAt === null || Math.max(lane.endedAt, lastMarkAt(history, lane)) >= from));
  }

  _background(pen, surface) {
    const { history, axis } = this.stage;
    pen.fillStyle = look.colors.rebalance;
    for (const { left, right } of visibleSpans(history.rebalances, axis)) {
      pen.fillRect(left, 0, Math.max(1, right - left), surface.height);
    }
  }

  _lane(pen, lane, top, arrows) {
    const { history, axis } = this.stage, middle = Math.round(top + this.row / 2) + 0.5;
    const left = Math.max(axis.x(lane.beganAt), axis.origin);
    const right = Math.min(lane.endedAt === null ? axis.openX : axis.x(lane.endedAt), axis.origin + axis.width);
    if (left > axis.origin + axis.width) return;
    if (right < axis.origin) {
      // A member that was removed may go on to send requests.
      drawExchanges(pen, this.stage, history.exchangesByLane.get(lane.number), top, this.row);
      return;
    }
    pen.strokeStyle = look.colors.line;
    pen.lineWidth = 1.5;
    line(pen, left, middle, right, middle);
    for (const { span, left: from, right: to } of visibleSpans(history.heldByMember.get(lane.member) ?? [], axis)) {
      if (span.began < lane.began || (lane.ended !== null && span.began >= lane.ended)) continue;
      this._held(pen, span, from, Math.max(to, from + 4), top);
      const kind = span.api === "JoinGroup" || span.api === "UNREVOKED_PARTITIONS" ? "joinline" : "syncline";
      if (axis.x(span.beganAt) >= axis.origin) arrows.push({ x: from, y: top + look.size(4), up: true, kind });
      const isAnswered = span.ended !== null && !(lane.ended === span.ended && lane.endedBy);
      if (isAnswered && to <= axis.origin + axis.width) arrows.push({ x: Math.max(to, from + 4), y: top + look.size(4), up: false, kind });
    }
    for (const each of visibleSpans(history.ruleHeldByLane.get(lane.number) ?? [], axis)) this._ruleHeld(pen, each, top);
    drawExchanges(pen, this.stage, history.exchangesByLane.get(lane.number), top, this.row);
    if (lane.endedAt !== null && axis.x(lane.endedAt) <= axis.origin + axis.width) this._end(pen, lane, right, middle);
  }

  _held(pen, span, left, right, top) {
    const isJoin = span.api === "JoinGroup" || span.api === "UNREVOKED_PARTITIONS", gap = look.size(5);
    pen.fillStyle = isJoin ? look.colors.join : look.colors.sync;
    pen.strokeStyle = isJoin ? look.colors.joinline : look.colors.syncline;
    pen.lineWidth = 1;
    box(pen, left, top + gap, right, top + this.row - gap);
    frame(pen, left, top + gap, right, top + this.row - gap);
    const { axis, history } = this.stage, ended = span.endedAt ?? (axis.tail ? axis.nowAt : history.lastAt);
    const took = (span.endedAt === null ? leftText : durationText)(ended - span.beganAt), from = Math.max(left, axis.origin);
    useFont(pen, 11);
    const text = fitting(pen, [`${span.api}, ${took}`, span.api, span.api.slice(0, 4)], right - from - 6);
    pen.fillStyle = "#141414";
    if (text) pen.fillText(text, from + 4, top + this.row / 2 + 0.5);
  }

  /** A request that a fault rule holds: the coordinator does not have it yet. */
  _ruleHeld(pen, { span, left, right }, top) {
    const { axis } = this.stage, gap = look.size(5), from = Math.max(left, axis.origin), to = Math.max(right, left + 4);
    pen.fillStyle = gapFill(pen);
    box(pen, left, top + gap, to, top + this.row - gap);
    pen.strokeStyle = look.colors.danger;
    pen.lineWidth = 1;
    pen.setLineDash([3, 2]);
    frame(pen, left, top + gap, to, top + this.row - gap);
    pen.setLineDash([]);
    useFont(pen, 11);
    const text = fitting(pen, [ruleHeldText(span, span.endedAt ?? axis.nowAt), span.api, span.api.slice(0, 4)], to - from - 8);
    pen.fillStyle = look.colors.panel;
    if (text) pen.fillRect(from + 2, top + gap + 2, textWidth(pen, text) + 4, this.row - 2 * gap - 4);
    pen.fillStyle = look.colors.ink;
    if (text) pen.fillText(text, from + 4, top + this.row / 2 + 0.5);
  }

  _end(pen, lane, x, middle) {
    const half = look.size(4);
    pen.strokeStyle = look.colors.danger;
    pen.lineWidth = 2;
    line(pen, x - half, middle - half, x + half, middle + half);
    line(pen, x - half, middle + half, x + half, middle - half);
    useFont(pen, 11);
    pen.fillStyle = look.colors.danger;
    pen.fillText(word(END_NAMES[lane.endedBy] ?? "lost"), x + half + 4, middle);
  }

  /** A request up to the coordinator, or its answer down to the member. */
  _arrow(pen, { x, y, up, kind }, head) {
    const tip = up ? head + 1 : y, from = up ? y : head, size = up ? -4 : 4;
    pen.strokeStyle = pen.fillStyle = look.colors[kind];
    pen.lineWidth = 1;
    pen.globalAlpha = 0.55;
    pen.setLineDash(up ? [] : [2, 3]);
    line(pen, Math.round(x) + 0.5, from, Math.round(x) + 0.5, tip);
    pen.setLineDash([]);
    pen.globalAlpha = 1;
    pen.beginPath();
    pen.moveTo(x + 0.5, tip);
    pen.lineTo(x - 3, tip - size * 1.4);
    pen.lineTo(x + 4, tip - size * 1.4);
    pen.fill();
  }

  _label(pen, surface, lane, top, isMember) {
    const { stage } = this, { history } = stage, width = labelWidth(surface), middle = top + this.row / 2 + 0.5;
    pen.fillStyle = ownerFill(pen, lane.number);
    pen.globalAlpha = isMember ? 1 : 0.35;
    box(pen, 10, top + look.size(7), 10 + look.size(10), top + look.size(17));
    pen.globalAlpha = 1;
    const leads = isMember && history.leaders[stage.cursor.index] === lane.member;
    pen.fillStyle = isMember ? look.colors.ink : look.colors.faint;
    const left = 10 + look.size(16), mark = leads ? " ★" : "";
    pen.fillText(shortened(pen, lane.name, width - left - 8 - (leads ? textWidth(pen, mark) : 0)) + mark, left, middle);
  }

  _head(pen, surface, head) {
    const { history, axis } = this.stage, [ticks, states, generations] = [20, 22, 20].map(look.size, look);
    pen.fillStyle = look.colors.panel;
    pen.fillRect(0, 0, surface.width, head);
    drawTicks(pen, this.stage, surface, ticks);
    this._states(pen, ticks, states);
    this._generations(pen, ticks + states, generations);
    this._coordinator(pen, ticks + states + generations, head);
    pen.fillStyle = look.colors.panel;
    pen.fillRect(0, 0, labelWidth(surface), head);
    pen.fillStyle = look.colors.faint;
    useFont(pen, 11);
    const width = labelWidth(surface) - 14;
    pen.fillText(shortened(pen, word("state"), width), 10, ticks + states / 2);
    pen.fillText(shortened(pen, history.numberWord, width), 10, ticks + states + generations / 2);
    pen.fillStyle = look.colors.ink;
    useFont(pen, 12, 600);
    pen.fillText(shortened(pen, word("coordinator"), width), 10, ticks + states + generations + look.size(13));
    pen.strokeStyle = look.colors.line;
    pen.lineWidth = 1;
    line(pen, 0, head - 0.5, surface.width, head - 0.5);
  }

  /** The time since which no broker runs, over the state that the group had then. */
  _outage(pen) {
    const { axis, outage } = this.stage, [ticks, height] = [20, 22].map(look.size, look);
    if (!outage) return;
    const left = Math.max(axis.x(outage.at), axis.origin), right = Math.min(axis.openX, axis.origin + axis.width);
    if (right <= left) return;
    pen.fillStyle = look.colors.panel;
    box(pen, left, ticks + 2, right, ticks + height - 2);
    pen.fillStyle = gapFill(pen);
    box(pen, left, ticks + 2, right, ticks + height - 2);
    useFont(pen, 11);
    const text = fitting(pen, [word("noBroker"), "–"], right - left - 8);
    pen.fillStyle = look.colors.panel;
    if (text) pen.fillRect(left + 2, ticks + 4, textWidth(pen, text) + 6, height - 8);
    pen.fillStyle = look.colors.danger;
    if (text) pen.fillText(text, left + 5, ticks + height / 2);
  }

  _states(pen, top, height) {
    for (const { span, left, right } of visibleSpans(this.stage.history.stateSpans, this.stage.axis)) {
      pen.fillStyle = stateColor(span.state);
      box(pen, left, top + 2, right, top + height - 2);
      const from = Math.max(left, this.stage.axis.origin), short = span.state.replace("Rebalance", "");
      useFont(pen, 11);
      const took = span.endedAt === null ? [] : [`${span.state}, ${durationText(span.endedAt - span.beganAt)}`];
      pen.fillStyle = span.state === "Dead" ? look.colors.faint : "#141414";
      const text = fitting(pen, [...took, span.state, short], right - from - 8);
      if (text) pen.fillText(text, from + 5, top + height / 2);
    }
  }

  _generations(pen, top, height) {
    const { history, axis } = this.stage;
    for (const { span, left, right } of visibleSpans(history.generations, axis)) {
      pen.fillStyle = look.colors.generation;
      box(pen, left, top + 1, right, top + height - 1);
      pen.strokeStyle = look.colors.line;
      pen.lineWidth = 1;
      frame(pen, left, top + 1, right, top + height - 1);
      const from = Math.max(left, axis.origin), name = `${span.number}`;
      const leader = span.leader === null ? [] : [`${name} · ${word("leader")} ${history.nameOf(span.leader)}`];
      const whole = leader.map((each) => `${each} · ${span.protocol}`);
      useFont(pen, 11);
      pen.fillStyle = look.colors.ink;
      const text = fitting(pen, [...whole, ...leader, name], right - from - 8);
      if (text) pen.fillText(text, from + 5, top + height / 2);
    }
  }

  /** The events, as dots on the coordinator's lane; those of one pixel as one. */
  _coordinator(pen, top, bottom) {
    const { history, axis } = this.stage, [from, to] = axis.visible(), middle = (top + bottom) / 2;
    pen.strokeStyle = look.colors.line;
    pen.lineWidth = 1.5;
    line(pen, axis.origin, middle, Math.min(axis.openX, axis.origin + axis.width), middle);
    for (let index = Math.max(0, lastUpTo(history.times, from - 1)); index < history.length && history.times[index] <= to; ) {
      const x = axis.x(history.times[index]), end = lastUpTo(history.times, axis.timeAt(x + 2));
      let dot = dotOf(history.types[index]);
      for (let each = index + 1; each <= Math.min(end, index + 12); each++) {
        const other = dotOf(history.types[each]);
        if (other.weight > dot.weight) dot = other;
      }
      this._dot(pen, x, middle, dot, 3);
      index = Math.max(index, end) + 1;
    }
  }

  _dot(pen, x, middle, dot, size) {
    pen.fillStyle = look.colors[dot.color];
    pen.beginPath();
    pen.arc(x, middle, look.size(size), 0, 7);
    pen.fill();
  }

  /** The present event, as a larger dot. */
  _present(pen, head) {
    const { history, axis, cursor } = this.stage, x = axis.x(history.times[cursor.index]);
    const isVisible = x >= axis.origin && x <= axis.origin + axis.width;
    if (isVisible) this._dot(pen, x, head - look.size(13), dotOf(history.types[cursor.index]), 5);
  }
}
