"use strict";
// The panel of actions: simulated members, SyncGroups that are held, partitions and brokers.

const REFRESH_EVERY_MS = 400;
const CLOCKS_EVERY_MS = 1_000;
const ASSIGNORS = ["range", "roundrobin", "sticky", "cooperative-sticky"];
const ENDED = new Set(["crashed", "left", "failed"]);
let fieldNumber = 0;

async function act(path, body) {
  const response = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error ?? `status ${response.status}`);
  return answer;
}

/** A label and its field. */
function field(name, input) {
  input.id = `field-${++fieldNumber}`;
  return element("label", { htmlFor: input.id }, element("span", {}, word(name)), input);
}

function form(name, submit, ...children) {
  const made = element("form", { onsubmit: (event) => { event.preventDefault(); submit(); } }, ...children);
  made.setAttribute("aria-label", word(name));
  return made;
}

class ActionPanel {
  constructor(source) {
    this.source = source;
    this.group = null;
    this.rows = new Map();
    this.deadlines = [];
    this.onBrokers = () => {};
    this.onGroup = () => {};
    setInterval(() => this._lookAtClocks(), CLOCKS_EVERY_MS);
    setInterval(() => this._showClocks(), CLOCKS_EVERY_MS / 5);
    this.brokerRows = new Map();
    this.said = element("p", { className: "said" });
    this.said.setAttribute("role", "status");
    this.host = element("section", { className: "hands", id: "hands" });
    this.host.setAttribute("aria-label", word("handsOn"));
    this.toggle = element("button", { type: "button", onclick: () => this._toggle() }, word("handsOn"));
    this.toggle.setAttribute("aria-controls", "hands");
    this.toggle.setAttribute("aria-expanded", "true");
    const forms = source.isReadOnly ? [element("p", { className: "quiet" }, word("audience"))] : [this._addForm(), this._topicForm()];
    this.host.append(this._memberTable(), element("div", { className: "forms" }, ...forms, this._brokerList()), this.said);
  }

  /** Show the members of this group; null before there is any. */
  show(group) {
    this.group = group;
    this.host.classList.toggle("alone", group === null);
    if (group !== null && this.groupField) this.groupField.value = group;
    this.refresh();
  }

  /** Ask for what is shown, soon and once. */
  refresh() {
    this.timer ??= setTimeout(async () => {
      this.timer = undefined;
      await this._refresh().catch((error) => this._say(error));
    }, this.isShown ? REFRESH_EVERY_MS : 0);
    this.isShown = true;
  }

  hide() {
    if (!this.host.hidden) this._toggle();
  }

  _toggle() {
    this.host.hidden = !this.host.hidden;
    this.toggle.setAttribute("aria-expanded", String(!this.host.hidden));
  }

  /** `name` is that of the member, where the input has none or another one. */
  async _do(path, body, name) {
    try {
      const answer = await act(path, body);
      this.said.className = "said";
      this.said.textContent = doneText(path, { ...body, name: name ?? answer.client_id ?? body.client });
      if (path === "simulated-member/add" && this.group !== null && body.group !== this.group) this._offerGroup(body.group);
    } catch (error) {
      this._say(error);
    }
    this.refresh();
  }

  _say(error) {
    this.said.className = "said wrong";
    this.said.textContent = shown(String(error.message ?? error));
  }

  /** A member has gone to a group that the page does not show: a way there. */
  _offerGroup(group) {
    const show = element("button", { type: "button", className: "plain", onclick: () => this.onGroup(group) }, `${word("showGroup")} ${shown(group)}`);
    this.said.append(" ", show);
  }

  _addForm() {
    this.groupField = element("input", { required: true, value: "classroom", autocomplete: "off" });
    this.topicField = element("select", { required: true });
    const assignor = element("select", {}, ...ASSIGNORS.map((each) => element("option", {}, each)));
    const name = element("input", { placeholder: word("nameHint"), autocomplete: "off", size: 10 });
    const session = element("input", { type: "number", min: 0.1, max: 3600, step: "any", value: 10, required: true });
    const isStatic = element("input", { type: "checkbox" });
    const submit = () => {
      const session_timeout_ms = Math.round(session.valueAsNumber * 1000);
      const heartbeat_interval_ms = Math.max(1, Math.min(1000, Math.floor(session_timeout_ms / 3)));
      const body = { group: this.groupField.value, topics: [this.topicField.value], assignor: assignor.value, client_id: name.value, session_timeout_ms, heartbeat_interval_ms };
      if (isStatic.checked) body.instance_id = (name.value || `static-${Date.now()}`).replace(/[^A-Za-z0-9._-]/g, "-");
      name.value = "";
      return this._do("simulated-member/add", body);
    };
    return form("addMember", submit, element("h2", {}, word("addMember")),
      field("group", this.groupField), field("topic", this.topicField), field("assignor", assignor), field("name", name),
      field("sessionSeconds", session), field("isStatic", isStatic), element("button", { type: "submit" }, word("add")));
  }

  _topicForm() {
    const name = element("input", { required: true, value: "orders", autocomplete: "off" });
    const partitions = element("input", { type: "number", min: 1, max: 10000, step: 1, value: 6, required: true });
    const submit = () => {
      const isThere = (this.topics ?? []).some(({ topic }) => topic === name.value);
      return this._do(isThere ? "topic/add-partitions" : "topic/create", { topic: name.value, partitions: partitions.valueAsNumber });
    };
    return form("topics", submit, element("h2", {}, word("topics")), field("topic", name), field("partitions", partitions),
      element("button", { type: "submit" }, word("createOrExtend")));
  }

  _memberTable() {
    const columns = ["member", "condition", "session", "believes", ...(this.source.isReadOnly ? [] : ["acts"])];
    const heads = columns.map((each) => element("th", { scope: "col" }, word(each)));
    this.slowField = element("input", { type: "number", min: 0.1, max: 3600, step: "any", value: 10 });
    this.memberRows = element("tbody");
    this.noMembers = element("p", { className: "quiet" }, word("noMembers"));
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), this.memberRows);
    const slow = this.source.isReadOnly ? [] : [field("slowSeconds", this.slowField)];
    return element("div", { className: "members" }, element("div", { className: "top" }, element("h2", {}, word("members")), ...slow),
      table, this.noMembers);
  }

  _brokerList() {
    this.brokerHost = element("ul");
    return element("div", { className: "brokers" }, element("h2", {}, word("brokers")), this.brokerHost);
  }

  async _refresh() {
    const group = this.group;
    const ask = (path) => fetchedJson(path);
    const [simulated, faults, brokers, topics, emulator, members] = await Promise.all([
      ask("simulated-members"), ask("faults"), ask("brokers"), ask("topics"), ask("emulator"),
      group === null ? [] : ask(`group?group=${encodeURIComponent(group)}`).then((found) => found.members, () => []),
    ]);
    if (group !== this.group) return;
    // How far the clock of the brokers is ahead of that of this machine.
    this.ahead = emulator.now_ms - Date.now();
    this.topics = topics;
    this._showTopics(topics);
    this._showMembers(wantedRows(group, simulated, members, emulator.crashed_clients), faults);
    this._showBrokers(brokers);
  }

  /** Heartbeats and stops of brokers are no events of a group: when a member was last seen, and which run, is asked for. */
  async _lookAtClocks() {
    if (document.hidden || this.group === null) return;
    const [deadlines, brokers] = await Promise.all([
      fetchedJson(`group/deadlines?group=${encodeURIComponent(this.group)}`).catch(() => []), fetchedJson("brokers").catch(() => undefined),
    ]);
    this.deadlines = deadlines;
    this._showClocks();
    if (brokers) this._showBrokers(brokers);
  }

  /** When the session of each member ends by the coordinator, unless it is seen again; by member id. */
  sessionEnds() {
    return new Map(this.deadlines.filter(({ kind }) => kind === "session").map((each) => [each.member_id, each.at_ms]));
  }

  _showClocks() {
    const ends = new Map(this.deadlines.filter(({ kind }) => kind === "session").map((each) => [each.member_id, each]));
    const now = Date.now() + (this.ahead ?? 0);
    for (const row of this.rows.values()) row.showSession(ends.get(row.memberId), now);
  }

  _showTopics(topics) {
    if (!this.topicField) return;
    const names = topics.map(({ topic }) => topic), present = [...this.topicField.options].map(({ value }) => value);
    if (names.join("\u0000") === present.join("\u0000")) return;
    const chosen = this.topicField.value;
    this.topicField.replaceChildren(...names.map((each) => element("option", { value: each }, shown(each))));
    if (names.includes(chosen)) this.topicField.value = chosen;
  }

  _showMembers(wanted, faults) {
    for (const client of [...this.rows.keys()]) {
      if (!wanted.has(client)) {
        this.rows.get(client).host.remove();
        this.rows.delete(client);
      }
    }
    for (const [client, member] of wanted) {
      if (!this.rows.has(client)) {
        this.rows.set(client, new MemberRow(this, client));
        this.memberRows.append(this.rows.get(client).host);
      }
      this.rows.get(client).show(member, faults.find(({ rule }) => rule.hold && rule.client_id === client && rule.on.includes("SyncGroup")));
    }
    this.noMembers.hidden = wanted.size > 0;
  }

  _showBrokers(brokers) {
    this.onBrokers(brokers);
    for (const { broker, running } of brokers) {
      if (!this.brokerRows.has(broker)) {
        const text = element("span"), button = element("button", { type: "button" });
        this.brokerRows.set(broker, { text, button });
        this.brokerHost.append(element("li", {}, text, ...(this.source.isReadOnly ? [] : [button])));
      }
      const { text, button } = this.brokerRows.get(broker);
      text.textContent = `${word("broker")} ${broker}: ${word(running ? "running" : "stopped")}`;
      button.textContent = word(running ? "stop" : "start");
      button.setAttribute("aria-label", `${button.textContent}: ${word("broker")} ${broker}`);
      button.onclick = () => this._do(`broker/${running ? "stop" : "start"}`, { broker });
    }
  }
}

/** What an act has done, with the names of what it was done to. */
function doneText(path, values) {
  const pattern = word(path === "simulated-member/slow" && !values.seconds ? "did simulated-member/notSlow" : `did ${path}`);
  return pattern.replace(/\{(\w+)\}/g, (_, name) => shown(String(values[name] ?? "")));
}

/** What the table shows, by client id: simulated members of the group, its other members, and crashed clients. */
function wantedRows(group, simulated, members, crashed) {
  const rows = new Map();
  for (const each of simulated) {
    if (group === null || each.group === group) rows.set(each.client_id, { ...each, isSimulated: true });
  }
  for (const each of members) {
    if (!rows.has(each.client_id)) rows.set(each.client_id, { ...each, condition: "running", isSimulated: false });
  }
  for (const client of crashed) {
    if (!rows.get(client)?.isSimulated) rows.set(client, { client_id: client, condition: "crashed", partitions: [], isSimulated: false });
  }
  return rows;
}

/** One member, with its buttons. They stay the same elements, so that none loses the focus when the table changes. */
class MemberRow {
  constructor(panel, client) {
    this.panel = panel;
    this.client = client;
    this.condition = element("td");
    this.owns = element("td");
    this.session = element("td", { className: "session" });
    const named = (name, onclick) => {
      const made = element("button", { type: "button", onclick }, word(name));
      made.setAttribute("aria-label", `${word(name)}: ${shown(client)}`);
      return made;
    };
    const one = (path, body = {}) => () => panel._do(path, { client, ...body });
    this.buttons = {
      crash: named("crash", () => panel._do(this.isSimulated ? "simulated-member/crash" : "client/crash", { client })),
      pause: named("pauseMember", one("simulated-member/pause")), resume: named("resume", one("simulated-member/resume")),
      leave: named("leave", one("simulated-member/leave")),
      slow: named("slow", () => panel._do("simulated-member/slow", { client, seconds: panel.slowField.valueAsNumber })),
      notSlow: named("notSlow", one("simulated-member/slow", { seconds: 0 })),
      hold: named("hold", () => panel._do("fault/add", { on: "SyncGroup", client_id: client, hold: true, times: 1 }, client)),
      release: named("release", () => panel._do("fault/remove", { fault: this.rule }, client)),
      start: named("startAgain", one("simulated-member/start")), remove: named("remove", one("simulated-member/remove")),
      revive: named("revive", one("client/revive")),
    };
    const acts = panel.source.isReadOnly ? [] : [element("td", { className: "acts" }, element("div", {}, ...Object.values(this.buttons)))];
    const head = element("th", { scope: "row" }, client === "" ? word("unnamed") : shown(client));
    this.host = element("tr", {}, head, this.condition, this.session, this.owns, ...acts);
  }

  /** The time until the coordinator removes the member, if it stays silent. */
  showSession(deadline, now) {
    const left = deadline ? Math.max(0, deadline.at_ms - now) : undefined;
    this.session.textContent = left === undefined ? "–" : `${(left / 1000).toFixed(1)} s`;
    this.session.classList.toggle("ending", left !== undefined && left < (deadline.at_ms - deadline.since_ms) / 2);
  }

  show(member, rule) {
    // The consumer protocol has no SyncGroup.
    const { condition, isSimulated } = member, hasEnded = ENDED.has(condition), isConsumer = (member.epoch ?? null) !== null;
    this.isSimulated = isSimulated;
    this.memberId = member.member_id;
    this.rule = rule?.fault;
    const facts = [word(`condition_${condition}`), ...(isSimulated ? [] : [word("notSimulated")])];
    if (isSimulated && !hasEnded) facts.push(word(`memberState_${member.state}`));
    if (member.slow_s) facts.push(`${word("slow")} ${member.slow_s} s`);
    if (condition === "failed") facts.push(member.last_error);
    this.condition.textContent = shown(facts.join(", "));
    const partitions = partitionsText(member.partitions.map(({ topic, partition }) => ({ topic: shown(topic), index: partition })));
    // What a real client believes is not known here: of it there is what the coordinator has assigned to it.
    this.owns.textContent = !partitions ? "–" : isSimulated ? partitions : `${word("assignedByCoordinator")} ${partitions}`;
    const canAct = isSimulated && !hasEnded;
    const visible = {
      crash: !hasEnded, pause: canAct && condition === "running", resume: canAct && condition === "paused",
      leave: canAct && ["running", "paused"].includes(condition), slow: canAct && !member.slow_s, notSlow: canAct && member.slow_s > 0,
      hold: !hasEnded && !rule && !isConsumer, release: Boolean(rule), start: isSimulated && hasEnded, remove: isSimulated && hasEnded,
      revive: !isSimulated && hasEnded,
    };
    const focused = document.activeElement;
    for (const [name, button] of Object.entries(this.buttons)) button.hidden = !visible[name];
    // A button that is gone leaves the focus to the first of its row.
    if (focused?.hidden && this.host.contains(focused)) Object.values(this.buttons).find((each) => !each.hidden)?.focus();
  }
}
