"use strict";
// What was recorded beside the events: requests and answers, what members believed they owned, and their sessions.

const LOST = new Set(["request lost", "response lost", "closed"]);

/** The exchanges of a document, in the order in which they were sent, or came where that is not known. */
function readExchanges(document, strings, phrases) {
  const columns = document.exchanges;
  let at = 0;
  return columns.at.map((distance, index) => {
    at += distance;
    const since = (name) => (columns[name][index] === null ? null : at + columns[name][index]);
    return {
      at: since("sent") ?? at, arrivedAt: since("arrived"), lastAt: at + columns.last[index], answeredAt: since("answered"),
      closedAt: since("closed"), receivedAt: since("received"), member: strings[columns.member[index]], client: strings[columns.client[index]],
      api: strings[columns.api[index]], error: strings[columns.error[index]], fate: strings[columns.fate[index]],
      reason: phrases[columns.reason[index]], count: columns.count[index],
      isHeldByRule: Boolean(columns.held[index]), isRefused: Boolean(columns.refused[index]), isIncident: Boolean(columns.incident[index]),
      generation: columns.generation[index], events: columns.events[index],
      request: columns.request[index] ?? "", response: columns.response[index] ?? "",
    };
  }).sort((one, other) => one.at - other.at);
}

/** Where an exchange is marked: where it was sent; an answer that never came where it was lost, unless its request was late. */
function markedAt({ at, arrivedAt, fate, closedAt, answeredAt }) {
  if (fate === "closed") return Math.max(at, closedAt ?? at);
  return fate === "response lost" && arrivedAt === at ? Math.max(at, answeredAt ?? at) : at;
}

/** The time of the last mark in a lane. */
function lastMarkAt(history, lane) {
  const exchanges = history.exchangesByLane.get(lane.number);
  return exchanges.length ? markedAt(exchanges[exchanges.length - 1]) : -Infinity;
}

/** Whether a member's request went wrong: refused, lost, late, closed, or handled twice. */
function isIncident(exchange) { return exchange.isIncident; }

/** What became of a request, in a few words. */
function fateText(exchange) {
  const times = exchange.count > 1 ? ` ×${exchange.count}` : "";
  const error = exchange.error && exchange.error !== "NONE" ? ` · ${exchange.error}` : "";
  const fate = exchange.isRefused && exchange.fate === "answered" ? "refused" : exchange.fate;
  return `${exchange.api}${times}: ${word(`fate ${fate}`)}${error}`;
}

/** Exchanges by the lane in which they are drawn, in the order of their marks: by member id, or by the client id of one that has none. */
function exchangesByLane(history) {
  const byMember = new Map(history.lanes.map((lane) => [lane.number, []])), byClient = groupedBy(history.lanes, (lane) => lane.client);
  const lanesOf = groupedBy(history.lanes, (lane) => lane.member);
  for (const exchange of history.exchanges) {
    const lanes = lanesOf.get(exchange.member) ?? byClient.get(exchange.client) ?? [];
    const lane = lanes.find((each) => each.endedAt === null || exchange.at <= each.endedAt) ?? lanes[lanes.length - 1];
    if (lane) byMember.get(lane.number).push(exchange);
  }
  for (const each of byMember.values()) each.sort((one, other) => markedAt(one) - markedAt(other));
  return byMember;
}

/** For each lane the JoinGroups and SyncGroups that a fault rule held, for as long as the coordinator did not have them. */
function ruleHeldByLane(history) {
  const found = new Map();
  for (const [number, exchanges] of history.exchangesByLane) {
    const held = exchanges.filter(({ api, isHeldByRule }) => isHeldByRule && (api === "JoinGroup" || api === "SyncGroup"));
    if (held.length) found.set(number, held.map((each) => ruleHeld(history, history.lanes[number], each)));
  }
  return found;
}

/** It ends when the coordinator gets the request, and with its connection or its member: then no client waits for an answer. */
function ruleHeld(history, lane, { api, member, at, answeredAt, closedAt }) {
  const came = (history.heldByMember.get(member) ?? []).find((each) => each.api === api && each.beganAt >= at
    && (answeredAt === null || each.beganAt <= answeredAt));
  const ends = [came ? came.beganAt : answeredAt, closedAt, lane.endedAt !== null && lane.endedAt >= at ? lane.endedAt : null];
  const known = ends.filter((each) => each !== null);
  return { api, beganAt: at, endedAt: known.length ? Math.min(...known) : null };
}

/** The request of a lane that a fault rule holds at a time; undefined if it holds none. */
function ruleHeldAt(history, lane, at) {
  const spans = history.ruleHeldByLane.get(lane.number) ?? [];
  return spans.find((each) => each.beganAt <= at && (each.endedAt === null || at < each.endedAt));
}

function ruleHeldText({ api, beganAt }, at) { return `${api}: ${word("heldByRule")}, ${leftText((at ?? beganAt) - beganAt)}`; }

/** For each partition the times at which members believed that they owned it, with those members. */
function readViews(history, document, strings) {
  const columns = document.views, byPartition = new Map();
  columns.member.forEach((member, index) => {
    const [beganAt, began] = columns.from[index], [endedAt, ended] = columns.until[index] ?? [null, null];
    for (const [topic, partition] of columns.partitions[index]) {
      const label = `${strings[topic]}-${partition}`;
      if (!byPartition.has(label)) byPartition.set(label, []);
      byPartition.get(label).push({ beganAt, began, endedAt, ended, member: strings[member] });
    }
  });
  return new Map([...byPartition].map(([label, views]) => [label, believers(views)]));
}

/** Spans that overlap, as spans that follow each other, each with all members that believe. */
function believers(views) {
  const positions = new Map(views.flatMap((each) => [[each.beganAt, each.began], [each.endedAt ?? Infinity, each.ended]]));
  const times = [...positions.keys()].sort((one, other) => one - other);
  const found = [];
  for (let index = 0; index + 1 < times.length; index++) {
    const beganAt = times[index], endedAt = times[index + 1];
    const members = [...new Set(views.filter((each) => each.beganAt <= beganAt && (each.endedAt ?? Infinity) >= endedAt).map((each) => each.member))];
    if (members.length) {
      found.push({ began: positions.get(beganAt), beganAt, ended: positions.get(endedAt), endedAt: endedAt === Infinity ? null : endedAt, members });
    }
  }
  return found;
}

/** The members that believe at a time, after the event at a position, that they own a partition. */
function believersAt(history, label, at, position) {
  const isPast = (time, after) => time < at || (time === at && after <= position);
  const spans = history.views.get(label) ?? [];
  return spans.find((each) => isPast(each.beganAt, each.began) && (each.endedAt === null || !isPast(each.endedAt, each.ended)))?.members ?? [];
}

/** The session deadlines of each member over time; null if there are none. */
function readSessions(document, strings, phrases) {
  const columns = document.sessions;
  if (!columns) return null;
  const spans = columns.member.map((member, index) => ({
    member: strings[member], beganAt: columns.from[index][0], began: columns.from[index][1], until: columns.until[index], at: columns.at[index],
    kind: columns.at[index] === null ? "session" : strings[columns.kind[index]],
    follows: columns.at[index] === null ? "" : phrases[columns.follows[index]], uncertain: columns.uncertain[index],
  }));
  return groupedBy(spans, (each) => each.member);
}

/** The session deadlines that run at a time after an event, the earliest first; those that were not recorded at the end. */
function sessionsAt(history, index, at) {
  const position = history.positions[index], found = [];
  // Several events may have the same time, and a session may begin or end between two of them.
  const isPast = (time, after) => time < at || (time === at && after <= position);
  for (const lane of history.sessions ? history.membersAt(position) : []) {
    const spans = history.sessions.get(lane.member) ?? [];
    let place = lastUpTo(spans, at, (each) => each.beganAt);
    while (place >= 0 && !isPast(spans[place].beganAt, spans[place].began)) place--;
    const span = spans[place];
    if (span && (span.until === null || !isPast(...span.until))) found.push(span);
  }
  return found.sort((one, other) => (one.at ?? Infinity) - (other.at ?? Infinity));
}

/** The requests of a lane that went wrong, and the runs of heartbeats, as marks. */
function drawExchanges(pen, stage, exchanges, top, row) {
  const { axis } = stage, [from, to] = axis.visible(), middle = Math.round(top + row / 2) + 0.5;
  let before = -Infinity;
  for (let index = Math.max(0, lastUpTo(exchanges, from, markedAt)); index < exchanges.length; index++) {
    const exchange = exchanges[index];
    const markAt = markedAt(exchange), x = axis.x(markAt);
    if (markAt > to) break;
    if (!isIncident(exchange)) {
      if (exchange.api === "Heartbeat" || exchange.api === "OffsetCommit") drawSeen(pen, x, axis.x(exchange.lastAt), middle);
      continue;
    }
    if (x < axis.origin || x - before < 3) continue;
    before = x;
    drawIncident(pen, axis, exchange, x, middle, row);
  }
}

/** Heartbeats that were accepted: a thin line below the lane. */
function drawSeen(pen, left, right, middle) {
  pen.fillStyle = look.colors.bar;
  pen.globalAlpha = 0.55;
  pen.fillRect(left, middle + 3, Math.max(2, right - left), 2);
  pen.globalAlpha = 1;
}

/** A broken arrow for a lost message, a slanted one for a late message, an outline for a refused request. */
function drawIncident(pen, axis, exchange, x, middle, row) {
  const high = row / 2 - 2, isLost = LOST.has(exchange.fate);
  pen.strokeStyle = pen.fillStyle = look.colors.danger;
  pen.lineWidth = 1.6;
  if (isLost) {
    const isAnswer = exchange.fate !== "request lost", end = isAnswer ? middle - 2 : middle - high, start = isAnswer ? middle - high : middle;
    pen.setLineDash([3, 2]);
    line(pen, x, start, x, end);
    pen.setLineDash([]);
    line(pen, x - 3.5, end - 3.5, x + 3.5, end + 3.5);
    line(pen, x - 3.5, end + 3.5, x + 3.5, end - 3.5);
  } else if (exchange.fate === "late" || exchange.fate === "repeated") {
    const end = Math.max(x + 4, axis.x(exchange.receivedAt ?? exchange.answeredAt ?? exchange.arrivedAt ?? exchange.at));
    const start = axis.x(exchange.at);
    pen.setLineDash([4, 2]);
    line(pen, start, middle, end, middle - high);
    if (exchange.fate === "repeated") line(pen, start + 4, middle, end + 4, middle - high);
    pen.setLineDash([]);
  } else {
    pen.strokeRect(Math.round(x) - 3.5, middle - 4, 7, 8);
  }
}
