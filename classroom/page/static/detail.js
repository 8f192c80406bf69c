"use strict";
// The present moment in words: its sentence, its cause, what followed, and the event as JSON.

const MAX_FOLLOWING = 8;

class Detail {
  constructor(stage) {
    this.stage = stage;
    this.when = element("p", { className: "when" });
    this.sentence = element("p", { className: "sentence" });
    this.facts = element("dl", { className: "facts" });
    this.cause = element("p", { className: "cause" });
    this.exchange = element("div", { className: "exchange" });
    this.followed = element("ol", { className: "followed" });
    this.event = element("pre", { tabIndex: 0 });
    this.event.setAttribute("aria-label", word("event"));
    this.host = element("section", { className: "detail" },
      element("h2", {}, word("moment")), this.when, this.sentence, this.facts,
      element("h3", {}, word("cause")), this.cause,
      this.exchange,
      element("h3", {}, word("followed")), this.followed,
      element("h3", {}, word("event")), this.event);
    this.host.setAttribute("aria-label", word("moment"));
  }

  /** Show the present moment. While it moves, ten times a second, which is too quick to read; what is long is written
   * when the moment has stayed for a while. */
  show() {
    const { history, cursor } = this.stage, { index } = cursor, now = performance.now();
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this._showRest(history, index), this.stage.isMoving ? 160 : 0);
    if (this.stage.isMoving && now - (this._shownAt ?? 0) < 100) return;
    this._shownAt = now;
    this.when.textContent = `event-${history.positions[index]} · ${sinceText(history.times[index] - history.beganAt)} · ${clockText(history.times[index])}`;
    this.sentence.textContent = history.sentenceOf(index);
    this._showFacts(history, index);
  }

  _showFacts(history, index) {
    const leader = history.leaders[index];
    const facts = [
      [word("state"), stateNow(this.stage)], [history.numberWord, String(history.generationIds[index])],
      [word("leader"), leader === null ? word("none") : history.nameOf(leader)],
    ];
    if (!this._values || this._numberWord !== history.numberWord) {
      this._numberWord = history.numberWord;
      this._values = facts.map(() => element("dd"));
      this.facts.replaceChildren(...facts.flatMap(([name], place) => [element("dt", {}, name), this._values[place]]));
    }
    facts.forEach(([, value], place) => { this._values[place].textContent = value; });
  }

  /** The recorded request of this moment: what became of it, and both messages. */
  _showExchange(exchange) {
    const { history } = this.stage;
    this.exchange.replaceChildren();
    if (!exchange) return;
    const name = history.lanesByMember.has(exchange.member) ? history.nameOf(exchange.member) : exchange.client;
    const took = exchange.answeredAt === null ? "" : ` · ${durationText(exchange.answeredAt - exchange.at)}`;
    this.exchange.append(element("h3", {}, word("request")),
      element("p", { className: isIncident(exchange) ? "wrong" : "" }, `${name} · ${fateText(exchange)}${took}`));
    if (exchange.reason) this.exchange.append(element("p", {}, exchange.reason));
    for (const part of ["request", "response"]) if (exchange[part]) this.exchange.append(messagePart(part, exchange[part]));
  }

  _showRest(history, index) {
    const cause = history.causeOf(index);
    this.cause.textContent = cause === null ? word("noCause") : history.causeTexts[index];
    this._showExchange(this.stage.exchange ?? history.exchangeOf(index));
    const key = (each) => `${history.causes[each].text} ${history.times[each]}`, items = [];
    for (let next = index + 1; next < history.length && items.length < MAX_FOLLOWING; next++) {
      const isSame = cause !== null && key(next) === key(index);
      items.push(element("li", { className: isSame ? "same" : "" },
        element("a", { href: `#event-${history.positions[next]}` }, laterText(history.times[next] - history.times[index])),
        element("span", {}, ` ${history.sentenceOf(next)}${isSame ? ` (${word("sameCause")})` : ""}`)));
    }
    if (!items.length) items.push(element("li", {}, word("nothingFollowed")));
    this.followed.replaceChildren(...items);
    const shownEvent = {
      type: history.types[index], position: history.positions[index], event_number: history.numbers[index],
      coordinator_epoch: history.epochs[index], at_ms: history.times[index], event: history.eventOf(index), cause,
    };
    this.event.textContent = compactJson(shownEvent);
  }
}

/** The present state; that no broker runs is in no event of the group. */
function stateNow({ history, cursor, outage }) {
  return outage && cursor.index >= history.length - 1 ? `${history.states[cursor.index]} (${word("noBroker")})` : history.states[cursor.index];
}

/** A message as JSON, in a part that opens. */
function messagePart(name, text) {
  const message = JSON.parse(text, (_, value) => (typeof value === "string" ? shown(value) : value));
  return element("details", {}, element("summary", {}, word(name)), element("pre", { tabIndex: 0 }, compactJson(message)));
}

/** A time of day in UTC. */
function clockText(at) { return `${new Date(at).toISOString().slice(11, 23)} UTC`; }

/** JSON with two spaces, lists of plain values on one line. */
function compactJson(value) {
  return JSON.stringify(value, null, 2).replace(/\[\s+([^[\]{}]*?)\s+\]/g, (_, inside) => `[${inside.replace(/\s*\n\s*/g, " ")}]`);
}
