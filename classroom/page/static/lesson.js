"use strict";
// The page of lessons: the list, and a lesson from its text over its question to its replay and its task.

/** The source of this page, in place of the one of source.js: the run of a lesson, once its question is answered. */
async function historySource() {
  const number = new URLSearchParams(location.search).get("lesson");
  if (number === null) return showLessons();
  const lesson = new LessonPage(number, await fetchedJson(`lesson?${new URLSearchParams({ lesson: number, language })}`));
  return lesson.answered();
}

/** Show the list. There is no history to go on with. */
async function showLessons() {
  const { lessons } = await fetchedJson(`lessons?${new URLSearchParams({ language })}`);
  const rows = lessons.map((each) => element("li", {}, element("a", { href: lessonAddress(each.number) },
    element("span", { className: "number" }, typeof each.number === "number" ? String(each.number) : "+"),
    element("span", { className: "title" }, shown(each.title)), progressMarks(each))));
  const done = lessons.filter((each) => each.question && each.task_solved).length;
  document.title = `${word("lessons")} · regroup`;
  document.body.replaceChildren(lessonHeader(null), element("main", { className: "lesson-page" },
    element("h1", { className: "lesson-title" }, word("lessons")), element("p", { className: "lead" }, word("lessonsIntroduction")),
    element("p", { className: "quiet" }, `${done} / ${lessons.length} ${word("done_of")}`), element("ol", { className: "lessons" }, ...rows)));
  return isReadyWithoutHistory();
}

/** Say that the page is complete as it is, and end what would show a history. */
function isReadyWithoutHistory() {
  document.documentElement.dataset.ready = "true";
  return new Promise(() => {});
}

class LessonPage {
  constructor(number, lesson) {
    this.number = number;
    this.lesson = lesson;
    this.main = element("main", { className: "lesson-page" });
    this.key = `regroup lesson ${lesson.id}`;
    document.title = `${lesson.title} · regroup`;
    this.question = new QuestionForm(lesson.question, (answer) => this._answer(answer));
    this.main.append(element("p", { className: "eyebrow" }, lessonName(lesson.number)), element("h1", { className: "lesson-title" }, shown(lesson.title)),
      element("div", { className: "lesson-text" }, ...paragraphsOf(lesson.text)), this.question.host);
    this.header = lessonHeader(number);
    document.body.replaceChildren(this.header, this.main);
    document.documentElement.dataset.lesson = "question";
  }

  /** Wait for the answer; what was answered before in this tab is shown again, in either language. */
  answered() {
    const waiting = new Promise((resolve) => { this._onAnswered = resolve; });
    const before = storedAnswer(this.key);
    if (before !== undefined) this.question.send(before);
    document.documentElement.dataset.ready = "true";
    return waiting;
  }

  async _answer(answer) {
    const result = await posted("lesson/answer", { lesson: this.number, answer });
    storeAnswer(this.key, answer);
    this.result = result;
    this.question.close(answer);
    this._onAnswered({
      isPart: true,
      runs: [{ label: shown(this.lesson.title), group: shown(result.document.group) }],
      read: async () => result.document,
      changes: async () => null,
      onPage: (page) => this._show(page),
    });
  }

  /** Put the pictures of the run into the lesson, and the task below them. */
  _show(page) {
    const { keys, said } = page, tools = document.querySelector(".tools"), replay = new Replay(page, this.result.replay);
    this.header.querySelector(".tools").replaceWith(tools);
    const again = element("button", { type: "button", onclick: () => { storeAnswer(this.key, undefined); location.assign(lessonAddress(this.number)); } }, word("answerAgain"));
    const verdict = verdictOf(this.result);
    this.question.host.append(verdict, again);
    this.task = new TaskForm(this.number, this.lesson.task, this.lesson.assignor);
    this.main.append(replay.host, this.task.host, this._ways());
    document.body.replaceChildren(this.header, this.main, keys, said);
    document.documentElement.dataset.lesson = "replay";
    document.title = `${this.lesson.title} · regroup`;
    stage.invalidate();
    stage.onMoment();
    verdict.focus({ preventScroll: true });
    verdict.scrollIntoView({ block: "center" });
  }

  _ways() {
    const { next, previous, number } = this.lesson, way = (to, name) => element("a", { href: lessonAddress(to) }, name);
    const links = [previous === null ? element("span") : way(previous, `← ${word("previousLesson")}`)];
    if (next !== null) links.push(way(next, `${word("nextLesson")} →`));
    else if (number !== null) links.push(element("span", { className: "quiet" }, word("lastLesson")));
    const made = element("nav", { className: "ways" }, ...links);
    made.setAttribute("aria-label", word("lessons"));
    return made;
  }
}

/** The answer of this tab to a lesson: undefined for none, null for a question that was left. */
function storedAnswer(key) {
  try { return JSON.parse(sessionStorage.getItem(key) ?? "[]")[0]; } catch { return undefined; }
}

function storeAnswer(key, answer) {
  try {
    if (answer === undefined) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, JSON.stringify([answer]));
  } catch { /* Without a storage the question is asked again after a reload. */ }
}
