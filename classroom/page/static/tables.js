"use strict";
// The text twin of each picture: a table of the present moment, for screen readers and for reading.

const FIRST_ROWS = 100;
const MAX_INCIDENTS = 8;

const TABLES = {
  sequence: {
    columns: ["member", "phase", "held", "owns"],
    rows({ history, cursor }) {
      const position = history.positions[cursor.index], owned = ownedAt(history, position);
      return history.membersAt(position).map((lane) => {
        const held = history.heldAt(lane.member, position), leads = history.leaders[cursor.index] === lane.member;
        const byRule = held ? undefined : ruleHeldAt(history, lane, cursor.at);
        return [lane.name + (leads ? ` (${word("leader")})` : ""), history.phaseOf(lane.member, cursor.index),
          held ? leftText(cursor.at - held.beganAt) : byRule ? ruleHeldText(byRule, cursor.at) : "", partitionsText(owned.get(lane.member) ?? [])];
      });
    },
  },
  requests: {
    columns: ["at", "member", "request", "why"],
    rows({ history, cursor }) {
      const until = lastUpTo(history.exchanges, cursor.at, (each) => each.at), found = [];
      for (let index = until; index >= 0 && found.length < MAX_INCIDENTS; index--) {
        const each = history.exchanges[index];
        if (!isIncident(each)) continue;
        const name = history.lanesByMember.has(each.member) ? history.nameOf(each.member) : each.client;
        found.push([sinceText(each.at - history.beganAt), name, fateText(each), each.reason]);
      }
      return found;
    },
    note: ({ history }) => (history.recorded.exchanges ? "" : word("requestsNotRecorded")),
  },
  ownership: {
    columns: ["partition", "owner", "assignedTo"],
    headings: ({ history }) => ["partition", "owner", "assignedTo", ...(history.recorded.views ? ["believed"] : [])].map(word),
    rows({ history, cursor }) {
      const position = history.positions[cursor.index];
      const believed = (row) => believersAt(history, row.label, cursor.at, position);
      return history.rows.map((row) => [row, history.spanAt(row.spans, position)]).filter(([, span]) => span).map(([row, span]) => [
        row.label, span.owners.map((each) => history.nameOf(each)).join(", ") || word("noOwner"),
        span.assigned.map((each) => history.nameOf(each)).join(", ") || word("none"),
        ...(history.recorded.views ? [believed(row).map((each) => history.nameOf(each)).join(", ") || word("none")] : []),
      ]);
    },
  },
  states: {
    columns: ["state", "present", "possible"],
    rows({ history, cursor }) {
      const { states, transitions } = history.stateMachine, now = history.states[cursor.index];
      return states.map((state) => [state, state === now ? word("present") : "",
        transitions.some(([before, after]) => before === now && after === state) ? word("possible") : ""]);
    },
  },
  clocks: {
    columns: ["kind", "member", "remaining", "follows"],
    rows(shownStage) {
      const { history, cursor } = shownStage;
      return runningClocks(shownStage).map((each) => [
        each.kind, each.member ? history.nameOf(each.member) : "",
        each.at === null ? word("notRecorded") : leftText(each.at - cursor.at), each.follows]);
    },
    note: clocksNote,
  },
  offsets: {
    columns: ["partition", "offset", "committedAt", "logEnd", "lag", "readTwice"],
    rows(shownStage) {
      const { history } = shownStage, known = (value) => (value === null ? word("notRecorded") : String(value));
      return history.offsets.map((row) => [row, logAt(row, shownStage)]).filter(([, { step, end }]) => step || end !== null)
        .map(([row, { step, before, end, lag, twice }]) => {
          const back = step?.offset != null && before?.offset != null && step.offset < before.offset;
          const committed = step ? `${step.offset ?? word("deleted")}${back ? ` (${word("wentBack")})` : ""}` : word("none");
          return [row.label, committed, step ? sinceText(step.beganAt - history.beganAt) : "", known(end),
            step?.offset != null ? known(lag) : "", known(twice)];
        });
    },
    note: logNote,
  },
  compare: {
    columns: ["total"],
    headings: ({ history, other }) => [word("total"), history.label, ...(other ? [other.label, word("difference")] : [])],
    rows({ history, other }) {
      const names = { left: "leftCount", removed: "removedCount" };
      return Object.entries(history.totals).map(([name, value]) => {
        const text = (number) => (name.endsWith("_ms") ? durationText(number) : String(number)), second = other?.totals[name];
        const difference = other ? `${second > value ? "+" : second < value ? "−" : ""}${text(Math.abs(second - value))}` : "";
        return [word(names[name] ?? name), text(value), ...(other ? [text(second), difference] : [])];
      });
    },
  },
};

/** The partitions of each owner after an event. */
function ownedAt(history, position) {
  const owned = new Map();
  for (const row of history.rows) {
    for (const member of history.spanAt(row.spans, position)?.owners ?? []) {
      if (!owned.has(member)) owned.set(member, []);
      owned.get(member).push(row);
    }
  }
  return owned;
}

class Twin {
  constructor(stage, view) {
    this.stage = stage; this.view = view; this.all = false;
    this.table = element("table");
    this.note = element("p", { className: "quiet" });
    this.more = element("button", { type: "button", className: "plain", onclick: () => { this.all = true; this.show(); } });
    this.host = element("details", { className: "twin", open: true },
      element("summary", {}, `${word(view)}: ${word("table")}`), this.table, this.more, this.note);
    this.host.addEventListener("toggle", () => this.host.open && this.show());
  }

  show() {
    if (!this.host.open || this.host.hidden || !this.stage.history) return;
    const { columns, headings, rows, note } = TABLES[this.view], found = rows(this.stage);
    const heads = headings ? headings(this.stage) : columns.map(word), cut = this.all ? found : found.slice(0, FIRST_ROWS);
    this.table.replaceChildren(
      element("caption", { className: "unseen" }, `${word(this.view)}, event-${this.stage.history.positions[this.stage.cursor.index]}`),
      element("thead", {}, element("tr", {}, ...heads.map((each) => element("th", { scope: "col" }, each)))),
      element("tbody", {}, ...cut.map(([name, ...rest]) => element("tr", {},
        element("th", { scope: "row" }, name), ...rest.map((each) => element("td", {}, each))))));
    this.more.hidden = cut.length === found.length;
    this.more.textContent = `${word("showAll")} (${found.length})`;
    this.note.textContent = note ? note(this.stage) : "";
  }
}
