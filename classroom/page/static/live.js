"use strict";
// Histories that are still being written: the one that is shown is followed, and new groups are added to the choice.

const NEW_GROUPS_EVERY_MS = 1_000;
const GROUP_WITHIN_MS = 5_000;
const NARROW = 640;
const TICK_EVERY_MS = 200;
const TABLES_EVERY_MS = 1_000;
/** Views whose tables change while no event comes. */
const RUNNING_VIEWS = new Set(["sequence", "clocks"]);
const RECORDED_AFTER_MS = 700;
const RECORDED_EVERY_MS = 3_000;
const RECONNECT_AFTER_MS = 2_000;

/** The groups of the server that served the page. */
class LiveSource {
  constructor() {
    this.runs = [];
    this.isReadOnly = false;
  }

  /** Ask for the groups; whether there is a new one. */
  async refresh() {
    const { runs, read_only } = await fetchedJson("timelines"), known = new Set(this.runs.map(({ name }) => name));
    const added = runs.filter(({ group }) => !known.has(group));
    this.isReadOnly = read_only;
    this.runs.push(...added.map(({ group }) => ({ label: word("live"), group: shown(group), name: group })));
    return added.length > 0;
  }

  read(number) { return this.changes(number, 0); }

  changes(number, after) {
    return fetchedJson(`timeline?group=${encodeURIComponent(this.runs[number].name)}&after=${after}`);
  }
}

/** The source of this page, in place of the one of source.js. It waits for the first group. */
async function historySource() {
  const source = new LiveSource(), wanted = positionIn(location.href);
  await source.refresh();
  const panel = new ActionPanel(source);
  if (!source.runs.length) await firstGroup(source, panel);
  source.onPage = (page) => new Follower(page, source, panel).begin(wanted);
  return source;
}

/** Show the panel alone until there is a group. */
async function firstGroup(source, panel) {
  const said = element("p", { id: "status" }, word("noGroup"));
  said.setAttribute("role", "status");
  document.body.replaceChildren(element("header", {}, element("h1", {}, "regroup")), panel.host, said);
  panel.show(null);
  while (!source.runs.length) {
    await later(NEW_GROUPS_EVERY_MS / 2);
    await source.refresh().then(() => { said.textContent = word("noGroup"); }, () => { said.textContent = word("reconnecting"); });
  }
}

/** Keeps the history on the page up to date. */
class Follower {
  constructor(page, source, panel) {
    this.page = page;
    this.source = source;
    this.panel = panel;
    this.said = element("span", { className: "lost", role: "status" });
    this.live = element("button", { type: "button", className: "live", onclick: () => this.toTheEnd() }, `● ${word("live")}`);
    this.live.title = word("toTheEnd");
    this.brokers = element("span", { className: "lost", id: "brokers", role: "status" });
    panel.onBrokers = (brokers) => this._showBrokers(brokers);
    panel.onGroup = (group) => this._showGroup(group);
  }

  begin(wanted) {
    const { page, panel } = this, focused = panel.host.contains(document.activeElement) ? document.activeElement : null;
    page.actions.append(this.said, this.brokers, this.live, panel.toggle);
    document.querySelector("header").after(panel.host);
    if (innerWidth < NARROW && !focused) panel.hide();
    focused?.focus();
    const showRun = page.showRun.bind(page);
    page.showRun = async (number, position) => {
      await showRun(number, position);
      if (position === undefined) this.toTheEnd();
      this.follow(number);
    };
    const onMoment = stage.onMoment;
    stage.onMoment = () => { onMoment(); this._showEnd(); };
    if (wanted === undefined) this.toTheEnd();
    this.follow(page.number);
    // A browser opens six connections to an address: a tab that is not looked at leaves its one to others.
    document.addEventListener("visibilitychange", () => { document.hidden ? this.stream.close() : this.follow(this.number); });
    setInterval(() => { if (!document.hidden) this._newGroups(); }, NEW_GROUPS_EVERY_MS);
    setInterval(() => this._goOn(), TICK_EVERY_MS);
  }

  toTheEnd() {
    this.page.scrubber.pause();
    stage.goTo(stage.history.length - 1);
    this._showEnd();
  }

  /** Follow the history with this number, and no other. */
  follow(number) {
    this.stream?.close();
    this.number = number;
    this.reached = 0;
    const { name } = this.source.runs[number];
    this.panel.show(name);
    this.stream = new EventSource(`group/follow?group=${encodeURIComponent(name)}`);
    this.stream.onmessage = ({ data }) => this._onProgress(JSON.parse(data));
    this.stream.onerror = () => this._onError(number);
    this._showEnd();
  }

  _onProgress({ position, running }) {
    this.said.textContent = running ? "" : word("down");
    this._isDown = !running;
    this._showOutage();
    this.wanted = position;
    this.panel.refresh();
    if (!this.isTaking) this._take();
    // Responses, heartbeats and refused requests come without an event.
    clearTimeout(this.recorded);
    this.recorded = setTimeout(() => this._takeRecorded(), RECORDED_AFTER_MS);
  }

  /** Ask for what was recorded since the last event, while the page is looked at and stands at its end. */
  async _takeRecorded() {
    if (!document.hidden && !this.isTaking && !this.page.scrubber.isPlaying && stage.cursor.index >= stage.history.length - 1) {
      this.reached = 0;
      await this._take();
    }
    clearTimeout(this.recorded);
    this.recorded = setTimeout(() => this._takeRecorded(), RECORDED_EVERY_MS);
  }

  /** Ask for what is new until nothing is. */
  async _take() {
    this.isTaking = true;
    try {
      while (this.wanted > this.reached) {
        const { number, wanted } = this;
        await this._takeOnce(number);
        if (number === this.number) this.reached = wanted;
      }
    } catch (error) {
      this.said.textContent = shown(String(error.message ?? error));
    } finally {
      this.isTaking = false;
    }
  }

  async _takeOnce(number) {
    const { page } = this, history = page.histories.get(number);
    const document = await this.source.changes(number, history.through);
    if (document.began[0] !== history.beganPosition) {
      // Earlier events are no longer kept, so the history starts again.
      page.histories.delete(number);
      const isAtEnd = stage.cursor.index >= stage.history.length - 1, position = stage.history.positions[stage.cursor.index];
      if (number === page.number) await page.showRun(number, isAtEnd ? undefined : position);
    } else if (stage.history === history) {
      const { axis } = stage, showsAll = axis.left <= 0 && axis.right >= axis.end;
      stage.extend(document);
      if (showsAll && (axis.width - 24) / axis.end >= LEAST_SCALE) stage.fit();
      page.scrubber.show();
    } else {
      history.take(document);
    }
  }

  _onError(number) {
    this.said.textContent = word("reconnecting");
    if (this.stream.readyState !== EventSource.CLOSED) return;
    setTimeout(() => { if (number === this.number) this.follow(number); }, RECONNECT_AFTER_MS);
  }

  /** The present goes on with the time of the brokers: clocks run down, and what is held reaches it. */
  _goOn() {
    const { page, panel } = this;
    if (document.hidden || panel.ahead === undefined || !stage.history?.length) return;
    const follows = stage.isAtEnd && !page.scrubber.isPlaying && !stage.exchange;
    stage.sessionEnds = follows ? panel.sessionEnds() : null;
    stage.goOn(Date.now() + panel.ahead, follows);
    if (!follows) return;
    page.scrubber.show();
    if (performance.now() - (this._tablesAt ?? 0) < TABLES_EVERY_MS || !RUNNING_VIEWS.has(page.view)) return;
    this._tablesAt = performance.now();
    page.views[page.view].twin.show();
  }

  /** Which brokers are stopped, if any are; without one that runs the state of the group is the last that is known. */
  _showBrokers(brokers) {
    const running = brokers.filter((each) => each.running), stopped = brokers.filter((each) => !each.running);
    this._isOut = !running.length;
    const names = stopped.map(({ broker }) => broker).join(", ");
    const text = names && `${running.length}/${brokers.length} ${word("brokersRun")}, ${word("stopped")}: ${names}`;
    if (this.brokers.textContent !== text) this.brokers.textContent = text;
    this._showOutage();
  }

  _showOutage() {
    const isOut = Boolean(this._isOut || this._isDown);
    if (isOut === Boolean(stage.outage)) return;
    stage.outage = isOut ? { at: Date.now() + (this.panel.ahead ?? 0) } : null;
    stage.invalidate();
    stage.settle();
  }

  _showEnd() {
    this.live.setAttribute("aria-pressed", String(stage.cursor.index >= stage.history.length - 1));
  }

  /** Show a group by its name, once it has a history. */
  async _showGroup(group) {
    const find = () => this.source.runs.findIndex(({ name }) => name === group);
    for (const end = performance.now() + GROUP_WITHIN_MS; find() < 0 && performance.now() < end; await later(NEW_GROUPS_EVERY_MS / 4)) await this._newGroups();
    if (find() < 0) { this.said.textContent = `${word("noHistory")} ${shown(group)}`; return; }
    await this.page.showRun(find());
    document.querySelector("header .runs select").value = find();
  }

  /** Offer the groups that have come. */
  async _newGroups() {
    const { page, source } = this;
    if (!(await source.refresh().catch(() => false))) return;
    const made = page._runs();
    document.querySelector("header .runs").replaceWith(made);
    const [run, beside] = made.querySelectorAll("select");
    run.value = page.number;
    beside.value = "";
  }
}

function later(milliseconds) { return new Promise((resolve) => { setTimeout(resolve, milliseconds); }); }
