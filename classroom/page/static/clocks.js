"use strict";
// The clocks: every armed deadline as a bar that runs down, and what follows when it ends.

const MAX_CLOCKS = 60;

class ClocksPicture {
  constructor(stage) {
    this.stage = stage;
    this.list = element("ul", { className: "clocks" });
    this.note = element("p", { className: "quiet" });
    this.host = element("div", { className: "clocks-host" }, this.list, this.note);
    this.bars = [];
  }

  invalidate() { beforeNextFrame(() => this._draw()); }

  _draw() {
    const { history, cursor } = this.stage;
    if (!this.host.isConnected || !history?.length) return;
    this.note.textContent = clocksNote(this.stage);
    const running = runningClocks(this.stage), key = running.map((each) => `${each.kind} ${each.member} ${each.at}`).join();
    if (this._drawnFor !== history || this._key !== key) this._build(running);
    this._drawnFor = history; this._key = key;
    for (const { clock, fill, rest } of this.bars) {
      if (clock.at === null) continue;
      const left = clock.at - cursor.at, whole = Math.max(1, clock.at - clock.beganAt);
      fill.style.width = `${Math.max(0, Math.min(100, (100 * left) / whole))}%`;
      fill.classList.toggle("ending", left < whole * 0.15);
      rest.textContent = leftText(left);
    }
  }

  _build(running) {
    const { history } = this.stage;
    this.bars = [];
    const rows = running.slice(0, MAX_CLOCKS).map((clock) => {
      const fill = element("div", { className: "fill" }), rest = element("span", { className: "rest" });
      if (clock.at === null) rest.textContent = word("notRecorded");
      this.bars.push({ clock, fill, rest });
      const member = clock.member ? ` · ${history.nameOf(clock.member)}` : "";
      return element("li", {},
        element("div", { className: "clock-head" }, element("strong", {}, `${clock.kind}${member}`), rest),
        element("div", { className: "track" }, fill),
        element("div", { className: "quiet" }, clock.follows ? `${word("follows")}: ${clock.follows}` : ""),
      );
    });
    if (!rows.length) rows.push(element("li", { className: "quiet" }, word("noDeadline")));
    if (running.length > MAX_CLOCKS) rows.push(element("li", { className: "quiet" }, `… ${running.length - MAX_CLOCKS} ${word("more")}`));
    this.list.replaceChildren(...rows);
  }
}

/** The deadlines of the group and the sessions of its members that run at the present time, the earliest first. */
function runningClocks({ history, cursor, sessionEnds }) {
  const sessions = sessionsAt(history, cursor.index, cursor.at).map((each) => withEnd(each, sessionEnds?.get(each.member)));
  const running = [...history.deadlinesAt(history.positions[cursor.index]), ...sessions];
  return running.sort((one, other) => (one.at ?? Infinity) - (other.at ?? Infinity));
}

/** A session that the coordinator has started again since the page read what was recorded. */
function withEnd(clock, at) {
  return clock.kind !== "session" || clock.at === null || at === undefined || at <= clock.at ? clock
    : { ...clock, at, beganAt: clock.beganAt + at - clock.at };
}

/** What is not known of session timeouts, and that no broker runs; empty if there is nothing to say. */
function clocksNote({ history, outage }) {
  const notes = outage ? [word("nothingFollows")] : [];
  if (!history.sessions) notes.push(word(history.recorded.exchanges ? "sessionsTooMany" : "sessionClocks"));
  return notes.join(" ");
}
