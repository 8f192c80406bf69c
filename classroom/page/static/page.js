"use strict";
// Puts the page together: views, toolbar, keys, address, theme and language.

const VIEWS = { sequence: SequencePicture, ownership: OwnershipPicture, states: StatesPicture, clocks: ClocksPicture, offsets: OffsetsPicture, compare: ComparePicture };
const ON_CANVAS = new Set(["sequence", "ownership", "offsets", "compare"]);
const NEEDS = { sequence: ["sequence", "ownership"] };
const stage = new Stage();

class Page {
  constructor(source) {
    this.source = source;
    this.histories = new Map();
    this.views = {};
    this.scrubber = new Scrubber(stage);
    this.detail = new Detail(stage);
    this.said = element("p", { className: "unseen", role: "status" });
    this.said.setAttribute("aria-live", "polite");
    this.actions = element("div", { className: "actions", id: "actions" });
    this._build();
    stage.onMoment = () => { this.scrubber.show(); this.detail.show(); if (stage.position !== this.shownInstead) this.sayAddress(); };
    stage.onSettled = () => this._settled();
  }

  /** Read a run and show it. */
  async showRun(number, position) {
    const history = await this._history(number);
    this.number = number;
    this.heading.textContent = `${word("title")} ${history.group}`;
    document.title = `${history.group} · regroup`;
    const missing = history.recorded.missing.map((each) => word(`missing ${each}`)), between = language === "zh" ? "、" : ", ";
    this.note.textContent = [missing.length ? `${word("notRecorded")}: ${missing.join(between)}.` : "", history.isTrimmed ? word("trimmed") : ""].join(" ");
    this.legend.replaceChildren(...legendEntries(history.isConsumer));
    stage.show(history, position);
    this.sayAddress(position);
  }

  /** Say so if the address that was asked for names no event of this group; until another event is shown. */
  sayAddress(position) {
    const isKnown = position === undefined || stage.history.positions.includes(position);
    this.shownInstead = isKnown ? undefined : stage.position;
    this.wrongAddress.textContent = isKnown ? "" : `#event-${position} ${word("otherAddress")} event-${stage.position}.`;
  }

  goToAddress(position) {
    stage.goToPosition(position);
    this.sayAddress(position);
  }

  async showBeside(number) {
    stage.other = number === "" ? null : await this._history(Number(number));
    stage.invalidate();
    stage.settle();
  }

  showView(name) {
    this.view = name;
    const shownViews = name === "sequence" ? NEEDS.sequence : [name];
    for (const [each, { panel, tab, twin }] of Object.entries(this.views)) {
      const isShown = shownViews.includes(each);
      panel.hidden = !isShown;
      twin.host.hidden = !isShown;
      if (each === "sequence") this.requests.host.hidden = !isShown;
      tab.setAttribute("aria-selected", String(each === name));
      tab.tabIndex = each === name ? 0 : -1;
    }
    this.pictures.dataset.view = name;
    this.legend.hidden = !shownViews.includes("ownership");
    stage.pictures = shownViews.map((each) => this.views[each].picture);
    stage.invalidate();
    if (stage.history) stage.settle();
  }

  async _history(number) {
    if (!this.histories.has(number)) {
      const { label } = this.source.runs[number];
      this.histories.set(number, new GroupHistory(await this.source.read(number), label));
    }
    return this.histories.get(number);
  }

  _settled() {
    const { history, cursor } = stage;
    if (this.scrubber.isPlaying && performance.now() - (this._writtenAt ?? 0) < 900) return;
    this._writtenAt = performance.now();
    for (const { twin, picture } of Object.values(this.views)) {
      twin.show();
      if (stage.pictures.includes(picture)) picture.picture?.reveal?.(picture);
    }
    this.requests.show();
    this.detail.show();
    const address = `#event-${history.positions[cursor.index]}`;
    if (location.hash !== address) setAddress(address);
    const waiting = history.rows.filter((row) => history.spanAt(row.spans, history.positions[cursor.index])?.owners.length === 0);
    const unowned = waiting.length ? ` ${word("noOwner")}: ${partitionsText(waiting)}.` : "";
    const now = `${sinceText(history.times[cursor.index] - history.beganAt)}. ${history.sentenceOf(cursor.index)} ${history.states[cursor.index]}, ${history.numberWord} ${history.generationIds[cursor.index]}.${unowned}`;
    if (!this.scrubber.isPlaying) this.said.textContent = now;
  }

  _build() {
    this.heading = element("h1");
    this.note = element("p", { className: "quiet note" });
    this.wrongAddress = element("p", { className: "wrong address", role: "alert" });
    this.pictures = element("div", { className: "pictures" });
    const twins = element("div", { className: "twins" });
    const tabs = element("div", { className: "tabs", role: "tablist" });
    tabs.setAttribute("aria-label", word("view"));
    for (const [name, Picture] of Object.entries(VIEWS)) {
      const picture = ON_CANVAS.has(name) ? new Surface(new Picture(stage), word(name)) : new Picture(stage);
      const panel = element("section", { className: `panel ${name}`, id: `view-${name}` }, picture.host);
      panel.setAttribute("aria-label", word(name));
      const tab = element("button", { type: "button", role: "tab", id: `tab-${name}`, onclick: () => this.showView(name) }, word(name));
      tab.setAttribute("aria-controls", `view-${name}`);
      const twin = new Twin(stage, name);
      this.views[name] = { picture, panel, tab, twin };
      tabs.append(tab);
      this.pictures.append(panel);
      twins.append(twin.host);
      if (name === "sequence") twins.append((this.requests = new Twin(stage, "requests")).host);
    }
    tabs.addEventListener("keydown", (event) => this._tabKeys(event));
    const main = element(this.source.isPart ? "div" : "main", { className: "history" }, element("div", { className: "stage" }, this.pictures, this.wrongAddress, (this.legend = this._legend()), this.note), this.detail.host, twins);
    document.body.replaceChildren(
      element("header", {}, this.heading, this._runs(), tabs, element("span", { className: "gap" }), this.actions, this._tools()),
      main, element("footer", {}, this.scrubber.host), this._keysDialog(), this.said);
  }

  _runs() {
    const { runs } = this.source, host = element("div", { className: "runs" });
    const names = runs.map(({ label, group }) => `${label} · ${group}`);
    if (runs.length < 2) return host;
    const choice = (name, onchange, ...first) => {
      const made = element("select", { onchange }, ...first, ...names.map((each, index) => element("option", { value: index }, each)));
      host.append(element("label", {}, element("span", {}, word(name)), made));
      return made;
    };
    choice("run", (event) => this.showRun(Number(event.target.value)));
    const beside = choice("beside", (event) => this.showBeside(event.target.value), element("option", { value: "" }, word("none")));
    beside.value = "1";
    return host;
  }

  _tools() {
    const other = new URL(location.href);
    other.searchParams.set("language", language === "zh" ? "en" : "zh");
    const link = element("a", { className: "tool", lang: language === "zh" ? "en" : "zh-Hans" }, word("language"));
    link.addEventListener("click", () => { link.href = `?${other.searchParams}${location.hash}`; });
    link.href = `?${other.searchParams}`;
    return element("div", { className: "tools" }, link,
      button(icon("theme"), word("theme"), () => this.toggleTheme()), button("A+", word("large"), () => this.toggleLarge()),
      button(icon("scale"), word("trueTime"), () => stage.toggleScale()), button("?", word("help"), () => this.keys.showModal()));
  }

  _legend() {
    return element("p", { className: "legend" }, ...legendEntries(false));
  }

  toggleTheme() {
    const root = document.documentElement, isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = root.dataset.theme ?? (isDark ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    this.readLook();
  }

  toggleLarge() {
    document.documentElement.classList.toggle("large");
    this.readLook();
  }

  readLook() {
    readLook();
    stage.invalidate();
    this.scrubber.strip.invalidate();
  }

  _tabKeys(event) {
    const change = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!change) return;
    const names = Object.keys(this.views), next = names[(names.indexOf(this.view) + change + names.length) % names.length];
    this.showView(next);
    this.views[next].tab.focus();
    event.preventDefault();
    event.stopPropagation();
  }

  _keysDialog() {
    const rows = [["Space", "keyPlay"], ["← →", "keyStep"], ["Home End", "keyEnds"], ["D", "keyDeadline"], ["R", "keyRebalance"],
      ["[ ]", "keySpeed"], ["− + 0", "keyZoom"], ["1 … 6", "keyViews"], ["T L S", "keyLook"], ["?", "keyHelp"]];
    this.keys = element("dialog", {}, element("h2", {}, word("keysTitle")),
      element("dl", {}, ...rows.flatMap(([keys, name]) => [element("dt", {}, element("kbd", {}, keys)), element("dd", {}, word(name))])),
      element("form", { method: "dialog" }, element("button", {}, word("close"))));
    this.keys.setAttribute("aria-label", word("keysTitle"));
    return this.keys;
  }

  /** What a key does; undefined if it does nothing. */
  actionOf(event) {
    const { scrubber } = this, back = event.shiftKey ? -1 : 1, names = Object.keys(this.views);
    const actions = {
      " ": () => scrubber.toggle(), ArrowLeft: () => scrubber.step(-1), ArrowRight: () => scrubber.step(1),
      Home: () => scrubber.jump(0), End: () => scrubber.jump(stage.history.length - 1),
      d: () => scrubber.deadline(back), r: () => scrubber.rebalance(back), "[": () => scrubber.faster(-1), "]": () => scrubber.faster(1),
      "+": () => stage.zoom(1.6), "=": () => stage.zoom(1.6), "-": () => stage.zoom(1 / 1.6), 0: () => stage.fit(),
      t: () => this.toggleTheme(), l: () => this.toggleLarge(), s: () => stage.toggleScale(), "?": () => this.keys.showModal(),
    };
    names.forEach((name, index) => { actions[index + 1] = () => this.showView(name); });
    return actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  }
}

/** What the colours and lines of the pictures mean. */
function legendEntries(isConsumer) {
  const entry = (className, name) => element("span", {}, element("i", { className: `swatch ${className}` }), word(name));
  const ofKind = isConsumer ? [entry("join", "revoking"), entry("sync", "waiting"), entry("rebalance", "reconciling"), entry("hatched", "revoked")]
    : [entry("join", "joinHeld"), entry("sync", "syncHeld"), entry("rebalance", "rebalance")];
  return [...ofKind, entry("hatched", "gap"), entry("pale", "given"), entry("twice", "twoOwners"), entry("believed", "believedStrip"), entry("refused", "refused")];
}

function setAddress(address) {
  try { history.replaceState(null, "", address); } catch { location.replace(address); }
}

function positionIn(address) {
  const found = /^#event-(\d+)$/.exec(new URL(address).hash);
  return found ? Number(found[1]) : undefined;
}

function onKey(page, event) {
  if (event.ctrlKey || event.metaKey || event.altKey || page.keys.open) return;
  const isControl = event.target.closest?.("select, textarea, input:not([type=range]), summary, pre");
  const isPressed = event.key === " " && event.target.closest?.("button, a, summary");
  const action = isControl || isPressed ? undefined : page.actionOf(event);
  if (!action) return;
  event.preventDefault();
  action();
}

async function begin() {
  document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
  const status = document.getElementById("status");
  status.textContent = word("loading");
  try {
    const source = await historySource(), page = new Page(source), wanted = new URLSearchParams(location.search);
    readLook();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => page.readLook());
    document.addEventListener("keydown", (event) => onKey(page, event));
    // The event holds the address that was asked for: until it arrives, a moment that settles may have replaced `location`.
    window.addEventListener("hashchange", ({ newURL }) => { const to = positionIn(newURL); if (to !== undefined && to !== stage.position) page.goToAddress(to); });
    page.showView(VIEWS[wanted.get("view")] ? wanted.get("view") : "sequence");
    await page.showRun(0, positionIn(location.href));
    if (source.runs.length > 1 && !source.onPage) await page.showBeside(1);
    window.regroupPage = page;
    source.onPage?.(page);
    document.documentElement.dataset.ready = "true";
  } catch (error) {
    document.body.replaceChildren(element("p", { id: "status", role: "alert" }, `${word("failed")}: ${shown(String(error.message ?? error))}`));
    throw error;
  }
}

begin();
