"use strict";
// The state machine: the states and transitions of the coordinator's own table, the present one lit.

const STATE_PLACES = {
  Empty: [110, 80], PreparingRebalance: [390, 80], CompletingRebalance: [690, 80], Stable: [690, 290], Dead: [110, 290],
};
// Of a group of the consumer protocol, so that no line runs behind a state.
const CONSUMER_PLACES = {
  Empty: [110, 80], Assigning: [400, 80], Reconciling: [690, 200], Stable: [400, 290], Dead: [110, 290],
};
// On a narrow page the names stand in two lines, and the states closer together.
const LAYOUTS = {
  wide: { box: [204, 58], view: "0 40 800 290", across: (x) => x, lines: (name) => [name] },
  narrow: { box: [136, 66], view: "0 34 540 300", across: (x) => 76 + (x - 110) * 0.67, lines: (name) => name.split(/(?=Rebalance)/) },
};

function svg(name, attributes = {}, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

class StatesPicture {
  constructor(stage) {
    this.stage = stage;
    this.picture = svg("svg", { role: "img" });
    this.move = element("p", { className: "move" });
    this.members = element("div", { className: "phases" });
    this.host = element("div", { className: "states-host" }, this.picture, element("div", {}, this.move, this.members));
  }

  invalidate() { beforeNextFrame(() => this._draw()); }

  _draw() {
    const { history, cursor } = this.stage;
    if (!this.host.isConnected || !history?.length) return;
    const layout = LAYOUTS[this.host.clientWidth < 560 * look.scale ? "narrow" : "wide"];
    if (this._drawnFor !== history || this._states !== history.stateMachine || this.layout !== layout) this._build(layout);
    const state = history.states[cursor.index], position = history.positions[cursor.index];
    const spans = history.stateSpans, number = lastUpTo(spans, position, (each) => each.began);
    const before = number > 0 ? spans[number - 1] : undefined;
    const taken = this._taken(number);
    this.picture.classList.toggle("stopped", Boolean(this.stage.outage) && cursor.index >= history.length - 1);
    for (const [name, node] of this.nodes) node.classList.toggle("present", name === state);
    for (const [key, edge] of this.edges) {
      const count = taken.get(key) ?? 0;
      edge.group.classList.toggle("taken", count > 0);
      edge.group.classList.toggle("last", Boolean(before) && key === `${before.state} ${state}`);
      edge.group.classList.toggle("possible", key.startsWith(`${state} `));
      edge.count.textContent = count ? `×${count}` : "";
    }
    this._nameMove(before, spans[number], state);
    this._phases();
  }

  /** How often each transition was made until a span. */
  _taken(number) {
    if (this._countedTo > number || this._counts === undefined || this._countedTo < 0) { this._counts = new Map(); this._countedTo = 0; }
    const { stateSpans } = this.stage.history;
    for (; this._countedTo < number; this._countedTo++) {
      const key = `${stateSpans[this._countedTo].state} ${stateSpans[this._countedTo + 1].state}`;
      this._counts.set(key, (this._counts.get(key) ?? 0) + 1);
    }
    return this._counts;
  }

  _nameMove(before, span, state) {
    const { history } = this.stage;
    if (!span || !before) { this.move.textContent = word("noMove"); return; }
    const index = lastUpTo(history.positions, span.began), key = `${before.state} ${state}`;
    const loaded = this.edges.has(key) ? "" : ` (${word("loadedMove")})`;
    this.move.replaceChildren(
      ...(stateNow(this.stage) === state ? [] : [element("strong", { className: "wrong" }, stateNow(this.stage)), element("br")]),
      element("strong", {}, `${word("lastMove")}: ${before.state} → ${state}${loaded}`),
      element("span", {}, ` ${sinceText(span.beganAt - history.beganAt)} · `),
      element("a", { href: `#event-${history.positions[index]}` }, `event-${history.positions[index]}`),
      element("br"), element("span", {}, history.sentenceOf(index)),
    );
  }

  /** The number of members in each phase, and their names. */
  _phases() {
    const { history, cursor } = this.stage, position = history.positions[cursor.index], byPhase = new Map();
    for (const lane of history.membersAt(position)) {
      const phase = history.phaseOf(lane.member, cursor.index);
      if (!byPhase.has(phase)) byPhase.set(phase, []);
      byPhase.get(phase).push(lane);
    }
    const parts = [...byPhase].map(([phase, lanes]) => element("div", { className: "phase" },
      element("h2", {}, `${phase} · ${lanes.length}`),
      element("p", {}, ...lanes.slice(0, 60).map((lane) => {
        const chip = element("span", { className: "chip" }, lane.name);
        chip.style.setProperty("--owner", ownerColor(lane.number));
        return chip;
      }), lanes.length > 60 ? ` … ${lanes.length - 60} ${word("more")}` : "")));
    this.members.replaceChildren(...parts);
  }

  _build(layout) {
    this.layout = layout;
    this.picture.setAttribute("viewBox", layout.view);
    const { states, transitions } = this.stage.history.stateMachine;
    this._drawnFor = this.stage.history; this._states = this.stage.history.stateMachine; this._countedTo = -1;
    this.picture.setAttribute("aria-label", word("states"));
    const marker = svg("marker", { id: "arrow", viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" });
    marker.append(svg("path", { d: "M0 0L10 5L0 10z", fill: "context-stroke" }));
    const definitions = svg("defs");
    definitions.append(marker);
    this.picture.replaceChildren(definitions);
    this.nodes = new Map(); this.edges = new Map();
    const known = new Set(transitions.map((each) => each.join(" ")));
    for (const [before, after] of transitions) this._edge(before, after, known.has(`${after} ${before}`));
    states.forEach((name, index) => this._node(name, this._place(name, index)));
  }

  _place(name, index) {
    const places = this.stage.history.isConsumer ? CONSUMER_PLACES : STATE_PLACES;
    const [x, y] = places[name] ?? [400 + 120 * Math.cos(index), 190 + 80 * Math.sin(index)];
    return [this.layout.across(x), y];
  }

  _node(name, [x, y]) {
    const group = svg("g", { class: `node ${STATE_COLORS[name] ?? "none"}` }), [width, height] = this.layout.box;
    const lines = this.layout.lines(name), text = svg("text");
    lines.forEach((each, index) => text.append(svg("tspan", { x, y: y + 6 + 20 * (index - (lines.length - 1) / 2) }, each)));
    group.append(svg("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 12 }), text);
    this.picture.append(group);
    this.nodes.set(name, group);
  }

  _edge(before, after, isDouble) {
    const { states } = this.stage.history.stateMachine;
    const from = this._place(before, states.indexOf(before)), to = this._place(after, states.indexOf(after));
    const length = Math.hypot(to[0] - from[0], to[1] - from[1]), across = [-(to[1] - from[1]) / length, (to[0] - from[0]) / length];
    const shift = isDouble ? 13 : 0, move = ([x, y]) => [x + across[0] * shift, y + across[1] * shift];
    const [start, end] = [atBorder(move(from), move(to), from, this.layout.box), atBorder(move(to), move(from), to, this.layout.box)];
    const group = svg("g", { class: "edge" });
    const count = svg("text", { x: (start[0] + end[0]) / 2 + across[0] * 13, y: (start[1] + end[1]) / 2 + across[1] * 13 + 4 });
    group.append(svg("path", { d: `M${start}L${end}`, "marker-end": "url(#arrow)" }), count);
    this.picture.append(group);
    this.edges.set(`${before} ${after}`, { group, count });
  }
}

/** Where the line from a place to another one leaves the box around a centre. */
function atBorder(from, to, center, [width, height]) {
  const dx = to[0] - from[0], dy = to[1] - from[1];
  const offsetX = from[0] - center[0], offsetY = from[1] - center[1];
  const reach = (delta, offset, half) => (delta === 0 ? Infinity : ((delta > 0 ? half : -half) - offset) / delta);
  const share = Math.min(reach(dx, offsetX, width / 2 + 3), reach(dy, offsetY, height / 2 + 3));
  return [from[0] + dx * share, from[1] + dy * share];
}
