"use strict";
// A group's history as the page uses it, made of the documents that classroom/page/document.py writes.

const FORMAT = 2;
const OPEN = -1;

/** The index of the last entry of an ordered list that is not above a value; -1 before the first. */
function lastUpTo(list, value, key = (each) => each) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(list[middle]) <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

class GroupHistory {
  constructor(document, label) {
    this.label = label;
    this.positions = []; this.times = []; this.numbers = []; this.epochs = []; this.types = []; this.states = [];
    this.generationIds = []; this.leaders = []; this.sentences = []; this.events = []; this.causes = [];
    this.causeTexts = []; this.deadlineKinds = [];
    this.furtherPoints = new Map();
    this.lanes = []; this.lanesByMember = new Map();
    this.held = []; this.heldByMember = new Map();
    this.stateSpans = []; this.generations = []; this.rebalances = []; this.deadlines = [];
    this.rows = []; this.offsets = [];
    this._rowsByName = new Map(); this._offsetsByName = new Map();
    this.take(document);
  }

  /** Take in a document: the whole history, or what has changed since this one ended (its `after`). */
  take(document) {
    if (document.format !== FORMAT) throw new Error(`format ${document.format} of the data, and this page reads ${FORMAT}`);
    this.group = shown(document.group);
    this.protocolType = document.protocolType;
    this.isConsumer = document.kind === "consumer";
    this.isTrimmed = document.trimmed;
    this.recorded = document.recorded;
    this.stateMachine = document.stateMachine;
    this.totals = document.totals;
    this._strings = document.strings.map(shown);
    this._phrases = readPhrases(document, this._strings);
    this._takeMoments(document);
    document.points.position.forEach((position, index) => this.furtherPoints.set(position, document.points.at[index]));
    [this.beganPosition, this.beganAt] = document.began;
    [this.lastPosition, this.lastAt] = document.last;
    this._takeLanes(document.lanes);
    this._takeSpans(document);
    this.stepsByMember = readSteps(document.steps, this._strings);
    this._takeRows(document.ownership, document.after);
    this._takeOffsets(document.offsets);
    readLogs(this, document, this._strings);
    this.exchanges = readExchanges(document, this._strings, this._phrases);
    this.exchangesByLane = exchangesByLane(this);
    this.ruleHeldByLane = ruleHeldByLane(this);
    this.views = readViews(this, document, this._strings);
    this.sessions = readSessions(document, this._strings, this._phrases);
    this.through = this.lastPosition;
    this.takes = (this.takes ?? 0) + 1;
  }

  /** The label of what counts up: the generation, or the group epoch. */
  get numberWord() { return word(this.isConsumer ? "groupEpoch" : "generation"); }

  get length() { return this.positions.length; }

  /** The time of an event, in epoch milliseconds. */
  timeOf(position) {
    const index = lastUpTo(this.positions, position);
    if (index >= 0 && this.positions[index] === position) return this.times[index];
    return this.furtherPoints.get(position) ?? (index < 0 ? this.beganAt : this.times[index]);
  }

  nameOf(member) { return this.lanesByMember.get(member)?.name ?? shortId(member); }

  /** A number for the colour of a member: that of its first lane. */
  colorOf(member) { return this.lanesByMember.get(member)?.number ?? this.lanes.length; }

  /** The span of a list that lasts after the event at a position; undefined if none does. */
  spanAt(spans, position) {
    const found = spans[lastUpTo(spans, position, (each) => each.began)];
    return found && (found.ended === null || position < found.ended) ? found : undefined;
  }

  membersAt(position) {
    return this.lanes.filter((lane) => lane.began <= position && (lane.ended === null || position < lane.ended));
  }

  heldAt(member, position) {
    return this.spanAt(this.heldByMember.get(member) ?? [], position);
  }

  /** The state and epoch of a member of the consumer protocol; undefined in a classic group. */
  stepAt(member, position) {
    const steps = this.stepsByMember.get(member) ?? [];
    return steps[lastUpTo(steps, position, (each) => each.position)];
  }

  /** The recorded request that led to an event; undefined if none is recorded. */
  exchangeOf(index) {
    const position = this.positions[index];
    return this.exchanges.find((each) => each.events.includes(position));
  }

  /** The running deadlines after an event, the earliest first. */
  deadlinesAt(position) {
    const running = this.deadlines.filter((each) => each.began <= position && (each.ended === null || position < each.ended));
    return running.sort((one, other) => one.at - other.at);
  }

  /** Where a member stands in a rebalance: the same rule as classroom/moment_view.py. */
  phaseOf(member, index) {
    const position = this.positions[index], held = this.heldAt(member, position), step = this.stepAt(member, position);
    if (step) return `${step.state} · epoch ${step.epoch}`;
    if (held) return `${held.api} ${word("phaseHeld")}`;
    if (this.states[index] === "PreparingRebalance") return `JoinGroup ${word("phaseExpected")}`;
    if (this.states[index] === "CompletingRebalance") return `SyncGroup ${word("phaseExpected")}`;
    return this._hasFetched(member, position) ? word("phaseAssigned") : `SyncGroup ${word("phaseExpected")}`;
  }

  /** Whether a member has sent SyncGroup in this generation, or needs not to: it was loaded with it, or took over. */
  _hasFetched(member, position) {
    const generation = this.spanAt(this.generations, position);
    if (!generation) return true;
    const start = lastUpTo(this.positions, generation.began), lane = this.lanesByMember.get(member);
    const isFromStart = start < 0 ? generation.assigned === generation.began : this.types[start] !== "generation-started";
    if (isFromStart || lane.began > generation.began) return true;
    const held = this.heldByMember.get(member) ?? [], last = held[lastUpTo(held, position, (each) => each.began)];
    return last?.api === "SyncGroup" && last.began >= generation.began;
  }

  _takeMoments(document) {
    const strings = this._strings, columns = document.moments;
    let position = 0, at = 0, number = 0, next = 0;
    for (let index = 0; index < columns.position.length; index++) {
      position += columns.position[index]; at += columns.at[index]; number += columns.number[index];
      this.positions.push(position); this.times.push(at); this.numbers.push(number);
      this.epochs.push(columns.epoch[index]);
      this.types.push(strings[columns.type[index]]);
      this.states.push(strings[columns.state[index]]);
      this.generationIds.push(columns.generation[index]);
      this.leaders.push(columns.leader[index] === OPEN ? null : strings[columns.leader[index]]);
      const pattern = document.patterns[columns.sentence[index]];
      this.sentences.push({ pattern, values: columns.values.slice(next, (next += pattern[0])).map((each) => valueText(each, strings)) });
      this.events.push({ text: columns.event[index], strings });
      this.causes.push({ text: document.strings[columns.cause[index]], strings });
      this.causeTexts.push(this._phrases[columns.causeText[index]]);
      this.deadlineKinds.push(strings[columns.deadline[index]]);
    }
  }

  _takeLanes(columns) {
    const strings = this._strings, span = this._spanReader(columns);
    this.lanes = columns.member.map((member, index) => ({
      ...span(index), number: index, member: strings[member], name: strings[columns.name[index]] || "–",
      client: strings[columns.client[index]], host: strings[columns.host[index]],
      instance: columns.instance[index] === OPEN ? null : strings[columns.instance[index]],
      sessionTimeout: columns.session[index], begunBy: strings[columns.begunBy[index]],
      endedBy: strings[columns.endedBy[index]],
      replaces: columns.replaces[index] === OPEN ? null : strings[columns.replaces[index]],
    }));
    this.lanesByMember = new Map();
    for (const lane of this.lanes) if (!this.lanesByMember.has(lane.member)) this.lanesByMember.set(lane.member, lane);
  }

  _takeSpans(document) {
    const strings = this._strings, after = document.after;
    const taken = (former, columns, fields) => {
      const span = this._spanReader(columns);
      const added = columns.began.map((_, index) => ({ ...span(index), ...fields(index) }));
      return [...former.filter((each) => each.ended !== null && each.ended <= after), ...added];
    };
    const { held, states, generations, rebalances, deadlines } = document;
    this.held = taken(this.held, held, (index) => ({ member: strings[held.member[index]], api: strings[held.api[index]] }));
    this.heldByMember = groupedBy(this.held, (each) => each.member);
    this.stateSpans = taken(this.stateSpans, states, (index) => ({ state: strings[states.state[index]] }));
    this.generations = taken(this.generations, generations, (index) => ({
      number: generations.number[index], members: generations.members[index], assigned: generations.assigned[index],
      leader: generations.leader[index] === OPEN ? null : strings[generations.leader[index]],
      protocol: generations.protocol[index] === OPEN ? null : strings[generations.protocol[index]],
    }));
    this.rebalances = taken(this.rebalances, rebalances, (index) => ({ endedBy: strings[rebalances.endedBy[index]] }));
    this.deadlines = taken(this.deadlines, deadlines, (index) => ({
      kind: strings[deadlines.kind[index]], at: deadlines.at[index], member: strings[deadlines.member[index]],
      follows: this._phrases[deadlines.follows[index]],
    }));
  }

  _takeRows(columns, after) {
    const strings = this._strings, span = this._spanReader(columns);
    const sets = columns.sets.map((each) => each.map((member) => strings[member]));
    let next = 0;
    for (const row of this.rows) row.spans = row.spans.filter((each) => each.ended !== null && each.ended <= after);
    for (const [topic, index, count] of columns.rows) {
      const row = this._row(this.rows, this._rowsByName, strings[topic], index);
      for (const end = next + count; next < end; next++) {
        row.spans.push({ ...span(next), assigned: sets[columns.assigned[next]], owners: sets[columns.owners[next]], isRevoked: (columns.revoking[next] ?? OPEN) !== OPEN });
      }
    }
    this.rows.sort(byPartition);
  }

  _takeOffsets(columns) {
    let next = 0;
    for (const [topic, index, count] of columns.rows) {
      const row = this._row(this.offsets, this._offsetsByName, this._strings[topic], index);
      let position = 0;
      for (const end = next + count; next < end; next++) {
        position += columns.position[next];
        row.spans.push({ began: position, beganAt: this.timeOf(position), offset: columns.offset[next] });
        row.highest = undefined;
      }
    }
    this.offsets.sort(byPartition);
  }

  /** The row of a partition among those of offsets, for what was recorded beside the commits. */
  offsetRow(topic, index) { return this._row(this.offsets, this._offsetsByName, topic, index); }

  _row(rows, byName, topic, index) {
    const label = `${topic}-${index}`;
    if (!byName.has(label)) {
      byName.set(label, { topic, index, label, spans: [], ends: [], reads: [] });
      rows.push(byName.get(label));
    }
    return byName.get(label);
  }

  /** Reads the spans of columns, one after the other. */
  _spanReader(columns) {
    let last = 0;
    return (index) => {
      const began = last + columns.began[index], length = columns.length[index];
      last = length === OPEN ? began : began + length;
      const ended = length === OPEN ? null : last;
      return { began, beganAt: this.timeOf(began), ended, endedAt: ended === null ? null : this.timeOf(ended) };
    };
  }

  sentenceOf(index) { return filledIn(this.sentences[index]); }

  /** The event of a moment as a value, its member ids whole. */
  eventOf(index) { return withStrings(this.events[index]); }

  /** The cause of a moment as a value; null if it is not recorded. */
  causeOf(index) { return this.causes[index].text ? withStrings(this.causes[index]) : null; }
}

/** The steps of each member of the consumer protocol, in the order of their positions. */
function readSteps(columns, strings) {
  const steps = columns.member.map((member, index) => ({
    member: strings[member], position: columns.position[index], state: strings[columns.state[index]], epoch: columns.epoch[index],
  }));
  return groupedBy(steps, (each) => each.member);
}

function byPartition(one, other) {
  return one.topic === other.topic ? one.index - other.index : one.topic < other.topic ? -1 : 1;
}

function groupedBy(list, key) {
  const groups = new Map();
  for (const each of list) groups.has(key(each)) ? groups.get(key(each)).push(each) : groups.set(key(each), [each]);
  return groups;
}

/** The phrases of a document in the page's language. */
function readPhrases({ phrases, patterns }, strings) {
  return phrases.map(([number, ...values]) => filledIn({ pattern: patterns[number], values: values.map((each) => valueText(each, strings)) }));
}

/** A value of a sentence: the number of a string, or -1 - n for a whole number n. */
function valueText(value, strings) { return value < 0 ? String(-1 - value) : strings[value]; }

/** A pattern with its values, in the page's language. */
function filledIn({ pattern: [, english, chinese], values }) {
  return (language === "zh" ? chinese : english).replace(/\{(\d+)\}/g, (_, place) => values[place]);
}

/** JSON whose strings `\u0001N` stand for entries of a table, as a value. */
function withStrings({ text, strings }) {
  const whole = (value) => {
    if (typeof value === "string") return value.startsWith("\u0001") ? strings[Number(value.slice(1))] : shown(value);
    if (Array.isArray(value)) return value.map(whole);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [whole(key), whole(each)]));
  };
  return whole(JSON.parse(text));
}

/** A member id of which no lane is known, with its UUID shortened. */
function shortId(member) {
  return member.replace(/([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "$1…");
}
