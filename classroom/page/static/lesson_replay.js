"use strict";
// The replay of a lesson: the pictures of its run, and its explained moments, each of which moves the scrubber.

class Replay {
  constructor(page, lines) {
    this.page = page;
    this.buttons = [];
    this.host = lessonPart("replay", word("replay"));
    const explained = lines.filter((each) => each.note), { detail } = page;
    const list = element("ol", { className: "moments" }, ...explained.map((each) => this._moment(each)));
    list.setAttribute("aria-label", word("moments"));
    const story = element("details", { className: "story" }, element("summary", {}, word("wholeStory")), element("ol", { className: "moments" }, ...lines.map((each) => this._line(each))));
    const history = document.querySelector(".history"), tabs = document.querySelector(".tabs"), footer = document.querySelector("footer");
    const side = element("div", { className: "side" }, list);
    detail.host.replaceWith(side);
    const twins = document.querySelector(".twins");
    twins.prepend(detail.host, story);
    for (const each of document.querySelectorAll(".twin")) each.open = false;
    this._leaveComparison();
    this.host.append(tabs, history, footer);
    const onMoment = stage.onMoment;
    stage.onMoment = () => { onMoment(); this._showPresent(); };
  }

  /** A lesson has one run, so there is nothing to compare it with. */
  _leaveComparison() {
    const { views } = this.page, { tab, panel, twin } = views.compare;
    for (const each of [tab, panel, twin.host]) each.remove();
    delete views.compare;
  }

  _moment(line) {
    const made = this._button(line);
    return element("li", {}, made, element("div", { className: "note" }, ...paragraphsOf(line.note)));
  }

  _line(line) { return element("li", { className: line.is_step ? "step" : "" }, this._button(line)); }

  _button({ at_ms, text, position }) {
    const made = element("button", { type: "button", className: "moment", onclick: () => this.goTo(position, at_ms) },
      element("span", { className: "when" }, sinceText(at_ms)), element("span", {}, shown(text)));
    this.buttons.push([made, position, at_ms]);
    return made;
  }

  /** What is in no event is a while after the last one: the scrubber goes on to its time. */
  goTo(position, at_ms) {
    this.page.scrubber.pause();
    stage.goToPosition(position, stage.history.beganAt + at_ms);
    stage.settle();
  }

  /** Mark what happens at the present moment. */
  _showPresent() {
    const { history, cursor } = stage, present = history.positions[cursor.index], since = cursor.at - history.beganAt;
    for (const [each, position, at_ms] of this.buttons) {
      if (position === present && at_ms === since) each.setAttribute("aria-current", "true");
      else each.removeAttribute("aria-current");
    }
  }
}
