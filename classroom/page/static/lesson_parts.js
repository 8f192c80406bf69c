"use strict";
// Parts of the page of lessons: texts, headings, verdicts, and the address of each lesson.

/** The address of a lesson, or of the list without one, in the page's language. */
function lessonAddress(number, other = language) {
  const query = new URLSearchParams();
  if (number !== null && number !== undefined) query.set("lesson", number);
  if (other !== "en") query.set("language", other);
  return query.size ? `?${query}` : "./";
}

/** `Lesson 3`, or what a lesson of one's own is called. */
function lessonName(number) {
  if (typeof number !== "number") return word("ownLesson");
  return language === "zh" ? `第 ${number} 课` : `${word("lesson")} ${number}`;
}

/** The elements of a text: a paragraph for each, those that begin with a blank or `- ` with their lines as they are. */
function paragraphsOf(text) {
  return text.trim() === "" ? [] : text.split("\n\n").map((each) => {
    const keepsLines = /^( |- )/.test(each);
    return element(keepsLines ? "pre" : "p", keepsLines ? { className: "kept", tabIndex: 0 } : {}, shownLines(each));
  });
}

/** A text with its lines, and without other characters that would not be seen. */
function shownLines(text) { return text.trimEnd().split("\n").map(shown).join("\n"); }

/** A part of a lesson with its heading, which can have the focus. */
function lessonPart(name, title, ...children) {
  const heading = element("h2", { id: `heading-${name}` }, title);
  const made = element("section", { className: `part part-${name}`, id: name }, heading, ...children);
  made.setAttribute("aria-labelledby", heading.id);
  return made;
}

/** A line that is read out when it changes. */
function statusLine() {
  const made = element("p", { className: "lesson-status" });
  made.setAttribute("role", "status");
  return made;
}

function showStatus(line, text, isWrong = false) {
  line.textContent = shown(text);
  line.classList.toggle("wrong", isWrong);
}

/** Send something to the server; its refusal becomes an error, and so does what it cannot read as an answer. */
async function posted(path, body) {
  const response = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ ...body, language }) });
  const value = await response.json();
  if (!response.ok) throw new Error(value.error ?? `status ${response.status}`);
  if (value.unreadable) throw new Error(value.unreadable);
  return value;
}

/** Run something that takes a moment, with a form that cannot be sent again meanwhile. */
async function whileBusy(form, status, work) {
  if (form.getAttribute("aria-busy") === "true") return;
  form.setAttribute("aria-busy", "true");
  showStatus(status, word("checking"));
  try {
    await work();
    if (status.textContent === word("checking")) showStatus(status, "");
  } catch (error) {
    showStatus(status, String(error.message ?? error), true);
  } finally {
    form.removeAttribute("aria-busy");
  }
}

/** The header of a page of lessons: the way to the list, the title, language and theme. */
function lessonHeader(number) {
  const other = language === "zh" ? "en" : "zh";
  const link = element("a", { className: "tool", lang: other === "zh" ? "zh-Hans" : "en", href: lessonAddress(number, other) }, word("language"));
  const home = element("a", { className: "home", href: lessonAddress(null) }, number === null ? "regroup" : `← ${word("allLessons")}`);
  const turn = () => {
    const root = document.documentElement, isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = (root.dataset.theme ?? (isDark ? "dark" : "light")) === "dark" ? "light" : "dark";
  };
  return element("header", {}, home, element("span", { className: "gap" }), element("div", { className: "tools" }, link, button(icon("theme"), word("theme"), turn)));
}

/** Two marks for what was done: the question and the task. */
function progressMarks({ question, task_solved }) {
  const mark = (sign, kind, name) => {
    const made = element("span", { className: `mark ${kind}`, title: word(name), role: "img" }, sign);
    made.setAttribute("aria-label", word(name));
    return made;
  };
  const answered = { right: ["✓", "good", "questionRight"], wrong: ["✗", "bad", "questionWrong"], skipped: ["–", "open", "questionSkipped"] }[question] ?? ["·", "open", "questionOpen"];
  return element("span", { className: "marks" }, mark(...answered), mark(...(task_solved ? ["✓", "good", "taskSolved"] : ["·", "open", "taskOpen"])));
}
