"use strict";
// The forms of a lesson: its question, and its task, which is a form of settings or the learner's file.

/** A label above its field. */
function lessonField(name, says, hint, input) {
  input.id = `lesson-${name.replaceAll(" ", "-")}`;
  const parts = [element("label", { htmlFor: input.id }, says)];
  if (hint) {
    const shownHint = element("span", { className: "hint", id: `${input.id}-hint` }, hint);
    input.setAttribute("aria-describedby", shownHint.id);
    parts.push(shownHint);
  }
  return element("div", { className: "field" }, ...parts, input);
}

/** The question. `onAnswer(text)` gets the answer, and null if the question is left. */
class QuestionForm {
  constructor({ kind, ask, options, unit, hint }, onAnswer) {
    this.onAnswer = onAnswer;
    this.status = statusLine();
    this.kind = kind;
    const fields = kind === "choice" ? this._options(ask, options) : this._text(ask, kind, unit, hint);
    this.form = element("form", { noValidate: true, onsubmit: (event) => { event.preventDefault(); this._send(); } }, ...fields,
      element("div", { className: "row" }, element("button", { type: "submit", className: "primary" }, word("submitAnswer")),
        element("button", { type: "button", onclick: () => this.send(null) }, word("skipQuestion"))), this.status);
    this.host = lessonPart("question", word("question"), this.form);
  }

  /** Send an answer, with the form busy until the run is shown. */
  send(answer) { return whileBusy(this.form, this.status, () => this.onAnswer(answer)); }

  /** Show what was answered, and take no further answer. */
  close(answer) {
    if (answer !== null) this._show(answer);
    for (const each of this.form.elements) each.disabled = true;
    this.form.querySelector(".row").remove();
  }

  _options(ask, options) {
    const made = options.map((says, index) => {
      const input = element("input", { type: "radio", name: "answer", value: String(index + 1), id: `option-${index + 1}` });
      return element("label", { className: "option", htmlFor: input.id }, input, element("span", {}, shown(says)));
    });
    return [element("fieldset", {}, element("legend", {}, shown(ask.replaceAll("\n", " "))), ...made)];
  }

  _text(ask, kind, unit, hint) {
    const input = element("input", { type: "text", name: "answer", autocomplete: "off", maxLength: 1000, spellcheck: false });
    if (kind === "number") input.inputMode = "decimal";
    const shownHint = kind !== "number" ? hint : unit ? `${word("unit_number")}${language === "zh" ? `（${unit}）` : ` (${unit})`}` : word("unit_number");
    return [...paragraphsOf(ask), lessonField("answer", word("answerLabel"), shown(shownHint), input)];
  }

  _send() {
    const answer = String(new FormData(this.form).get("answer") ?? "").trim();
    if (!answer && this.kind === "choice") return showStatus(this.status, word("chooseFirst"), true);
    return this.send(answer);
  }

  _show(answer) {
    for (const each of this.form.elements) {
      if (each.type === "radio") each.checked = each.value === answer;
      else if (each.name === "answer") each.value = answer;
    }
  }
}

/** What was answered, what is right, and why. */
function verdictOf({ is_right, right_answer, because, explanation }) {
  const text = `${word("rightAnswer")}${language === "zh" ? "：" : ": "}${shown(right_answer)}`;
  const head = is_right === null ? [] : [element("p", { className: `verdict ${is_right ? "good" : "bad"}` }, `${is_right ? "✓" : "✗"} ${word(is_right ? "right" : "wrong")}`)];
  return element("div", { className: "verdict-box", tabIndex: -1 }, ...head, element("p", { className: "answer" }, text), ...paragraphsOf(because), ...paragraphsOf(explanation));
}

/** The task: settings to choose, or a file to run, and the result with its reasons. */
class TaskForm {
  constructor(number, task, assignor) {
    this.number = number;
    this.task = task;
    this.status = statusLine();
    this.result = element("div", { className: "result" });
    this.result.setAttribute("aria-live", "polite");
    const isFile = task.kind === "assignor", fields = isFile ? this._file(assignor) : task.settings.map((each) => this._setting(each));
    const run = element("button", { type: "submit", className: "primary" }, word(isFile ? "runFile" : "runTask"));
    run.hidden = isFile && !assignor;
    const solution = element("button", { type: "button", onclick: () => this._showSolution() }, word("solution"));
    this.form = element("form", { noValidate: true, onsubmit: (event) => { event.preventDefault(); this._run(); } },
      element("div", { className: "fields" }, ...fields), element("div", { className: "row" }, run, solution), this.status);
    this.host = lessonPart("task", word("task"), ...paragraphsOf(task.ask), this.form, this.result);
  }

  _setting({ name, type, says, least, most, choices }) {
    const range = [least && `${word("from")} ${least}`, most && `${word("upTo")} ${most}`].filter(Boolean).join(" ");
    if (type === "choice") {
      const options = choices.map((each) => element("option", { value: each }, shown(each)));
      return lessonField(name, shown(says), "", element("select", { name }, ...options));
    }
    const hint = [word(`unit_${type}`), range].filter(Boolean).join(language === "zh" ? "，" : ", ");
    const input = element("input", { type: "text", name, autocomplete: "off", maxLength: 100, spellcheck: false, required: true });
    if (type === "number") input.inputMode = "numeric";
    return lessonField(name, shown(says), hint, input);
  }

  _file(assignor) {
    if (!assignor) return [element("p", {}, word("noFile")), element("pre", { tabIndex: 0 }, `regroup lesson ${this.number === "own" ? "LESSON.yaml" : this.number} --page --assignor FILE`)];
    return [element("p", { className: "file" }, `${word("yourFile")}${language === "zh" ? "：" : ": "}`, element("code", {}, shown(assignor))),
      element("p", { className: "quiet" }, word("fileNote"))];
  }

  _run() {
    const values = Object.fromEntries([...new FormData(this.form)].map(([name, value]) => [name, String(value).trim()]));
    const empty = [...this.form.elements].find((each) => each.required && !each.value.trim());
    if (empty) {
      empty.focus();
      return showStatus(this.status, word("required"), true);
    }
    return whileBusy(this.form, this.status, async () => {
      const isFile = this.task.kind === "assignor", lesson = String(this.number);
      this.result.replaceChildren();
      this._show(await (isFile ? posted("lesson/assignor", { lesson }) : posted("lesson/task", { lesson, values })));
    });
  }

  _show({ is_solved, problem, conditions, done, printed }) {
    const rows = conditions.map(({ holds, text, because }) => {
      const sign = element("span", { className: `mark ${holds ? "good" : "bad"}`, role: "img" }, holds ? "✓" : "✗");
      sign.setAttribute("aria-label", word(holds ? "holds" : "fails"));
      return element("li", {}, sign, element("div", {}, element("p", {}, shown(text)), ...paragraphsOf(because ?? "")));
    });
    const verdict = element("p", { className: `verdict ${is_solved ? "good" : "bad"}` }, `${is_solved ? "✓" : "✗"} ${word(is_solved ? "solved" : "notSolved")}`);
    const output = printed ? [element("p", {}, word("printed")), element("pre", { tabIndex: 0 }, shownLines(printed))] : [];
    this.result.replaceChildren(verdict, ...(problem ? [element("pre", { className: "kept", tabIndex: 0 }, shownLines(problem))] : []), ...output,
      element("ul", { className: "conditions" }, ...rows), ...paragraphsOf(done ?? ""));
    this.result.scrollIntoView({ block: "nearest" });
  }

  async _showSolution() {
    const query = new URLSearchParams({ lesson: this.number, language });
    const { lines } = await fetchedJson(`lesson/solution?${query}`);
    this.solution?.remove();
    this.solution = element("div", { className: "solution" }, element("p", {}, `${word("oneSolution")}${language === "zh" ? "：" : ":"}`), element("pre", { tabIndex: 0 }, shownLines(lines.join("\n"))));
    this.form.after(this.solution);
  }
}
