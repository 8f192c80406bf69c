"use strict";
// The scrubber: play, pause, step, step back, next deadline, next rebalance, speed, and the position in the history.

const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16];
const UNITS_A_SECOND = 70;
const SLIDER_STEPS = 10_000;

class Scrubber {
  constructor(stage) {
    this.stage = stage;
    this.isPlaying = false;
    this.speed = 1;
    this.strip = new Surface(new StripPicture(stage), word("position"));
    this.strip.host.classList.add("strip");
    this.strip.host.tabIndex = -1;
    this.slider = element("input", { type: "range", min: 0, max: SLIDER_STEPS, value: 0, step: 1, oninput: () => {
      this.pause();
      stage.goNearTime(stage.axis.timeOf((this.slider.value / SLIDER_STEPS) * stage.axis.lastUnit));
    } });
    this.slider.setAttribute("aria-label", word("position"));
    this.playButton = button(icon("play"), word("play"), () => this.toggle(), "play");
    this.speedButton = button("1×", word("speed"), () => this.faster(1, true), "speed");
    this.time = element("span", { className: "time" });
    const pair = (label, back, on, seek) => element("span", { className: "pair" },
      button(icon("back"), word(back), () => seek(-1)), element("span", {}, label), button(icon("on"), word(on), () => seek(1)));
    this.host = element("div", { className: "scrubber" }, this.strip.host, this.slider,
      element("div", { className: "controls" },
        button(icon("first"), word("first"), () => this.jump(0)), button(icon("back"), word("back"), () => this.step(-1)),
        this.playButton,
        button(icon("on"), word("step"), () => this.step(1)), button(icon("last"), word("last"), () => this.jump(stage.history.length - 1)),
        this.speedButton, this.time,
        pair(word("rebalance"), "lastRebalance", "nextRebalance", (direction) => this.rebalance(direction)),
        pair(word("deadlineShort"), "lastDeadline", "nextDeadline", (direction) => this.deadline(direction)),
        element("span", { className: "gap" }),
        button(icon("out"), word("zoomOut"), () => stage.zoom(1 / 1.6)), button(icon("in"), word("zoomIn"), () => stage.zoom(1.6)),
        button(icon("fit"), word("fit"), () => stage.fit())));
  }

  /** Show the present moment. */
  show() {
    const { history, cursor } = this.stage, { index } = cursor;
    // The same axis as that of the strip above it.
    this.slider.value = Math.round(SLIDER_STEPS * Math.min(1, this.stage.axis.unitOf(cursor.at) / Math.max(1, this.stage.axis.lastUnit)));
    const text = `event-${history.positions[index]}, ${sinceText(history.times[index] - history.beganAt)}, ${history.states[index]}`;
    this.slider.setAttribute("aria-valuetext", text);
    this.time.textContent = `${sinceText(cursor.at - history.beganAt)} · ${index + 1}/${history.length}`;
    this.strip.invalidate();
  }

  toggle() { this.isPlaying ? this.pause() : this.play(); }

  play() {
    const { stage } = this;
    if (stage.cursor.index >= stage.history.length - 1) stage.goTo(0);
    this.isPlaying = true;
    this._showPlaying();
    let before = performance.now();
    const move = (now) => {
      if (!this.isPlaying) return;
      const passed = Math.min(100, now - before);
      before = now;
      if (stage.advance((passed / 1000) * UNITS_A_SECOND * this.speed)) requestAnimationFrame(move);
      else this.pause();
    };
    requestAnimationFrame(move);
  }

  pause() {
    this.isPlaying = false;
    this._showPlaying();
    this.stage.settle();
  }

  step(change) { this.jump(this.stage.cursor.index + change); }

  jump(index) {
    this.pause();
    this.stage.goTo(index);
  }

  /** To the next moment, or the previous one, whose cause is a deadline. */
  deadline(direction) {
    const { history } = this.stage;
    // Several events may come of one deadline: the first of them is its place.
    this._seek(direction, (index) => history.deadlineKinds[index] !== "" && !(history.causes[index].text === history.causes[index - 1]?.text
      && history.times[index] === history.times[index - 1]));
  }

  rebalance(direction) { this._seek(direction, (index) => this.stage.history.types[index] === "rebalance-started"); }

  _seek(direction, isFound) {
    const { history, cursor } = this.stage;
    for (let index = cursor.index + direction; index >= 0 && index < history.length; index += direction) {
      if (isFound(index)) return this.jump(index);
    }
    return this.pause();
  }

  faster(change, around = false) {
    const next = SPEEDS.indexOf(this.speed) + change;
    this.speed = SPEEDS[around ? next % SPEEDS.length : Math.max(0, Math.min(SPEEDS.length - 1, next))];
    this.speedButton.textContent = `${this.speed}×`;
    this.speedButton.setAttribute("aria-label", `${word("speed")} ${this.speed}×`);
  }

  _showPlaying() {
    this.playButton.replaceChildren(icon(this.isPlaying ? "pause" : "play"));
    this.playButton.setAttribute("aria-label", word(this.isPlaying ? "pause" : "play"));
    this.playButton.title = word(this.isPlaying ? "pause" : "play");
  }
}

const ICONS = {
  play: "M5 3L13 8L5 13z", pause: "M4 3h3v10H4zM9 3h3v10H9z", back: "M11 3L4 8L11 13z", on: "M5 3L12 8L5 13z",
  first: "M3 3h2v10H3zM13 3L6 8L13 13z", last: "M11 3h2v10h-2zM3 3L10 8L3 13z", out: "M3 7h10v2H3z", in: "M3 7h4V3h2v4h4v2H9v4H7V9H3z",
  fit: "M5 4L1 8L5 12V9H11V12L15 8L11 4V7H5z", theme: "M8 2a6 6 0 1 0 0 12zM8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1z",
  scale: "M1 3h2v4h2V5h1v2h2V5h1v2h2V5h1v2h1V3h2v10h-2V9H3v4H1z",
};

/** A small picture for a button, in the colour of its text. */
function icon(name) {
  const made = svg("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" });
  made.append(svg("path", { d: ICONS[name] }));
  return made;
}

/** A button; `label` is its name for screen readers, and its tip. */
function button(text, label, onclick, className = "") {
  const made = element("button", { type: "button", className, title: label, onclick }, text);
  made.setAttribute("aria-label", label);
  return made;
}
