"use strict";
// Further labels of the page of lessons.

Object.assign(WORDS.en, {
  lessons: "Lessons", lesson: "Lesson", ownLesson: "Your own lesson", allLessons: "All lessons", lessonsIntroduction:
    "Each lesson is a short text, a question to answer before the result is shown, the replay of a real run with its moments explained, and a task that is checked by running it.",
  question: "Question", answerLabel: "Your answer", unit_duration: "a time, such as 20s", unit_names: "names, or none",
  unit_partitions: "partitions, such as orders 0-2", unit_word: "a word", unit_number: "a number",
  submitAnswer: "Answer", skipQuestion: "Skip the question", answerAgain: "Answer again", chooseFirst: "Choose an answer first.",
  checking: "The run is being made …", right: "Right", wrong: "Not so", rightAnswer: "The right answer",
  replay: "What happened", moments: "The moments", wholeStory: "Everything that happened", pictures: "The run as pictures",
  task: "Task", runTask: "Run it", solution: "Show a solution", oneSolution: "One solution", solved: "Solved.", notSolved: "Not solved yet.",
  holds: "holds", fails: "does not hold", from: "from", upTo: "up to", runFile: "Run the file", yourFile: "Your file",
  noFile: "This task is a Python file on your disk. Write it, end this page with Ctrl-C, and name the file:",
  fileNote: "The file is read again at each run, and runs in a process of its own. The page sends no code.",
  printed: "The assignor printed", nextLesson: "Next lesson", previousLesson: "Previous lesson", lastLesson: "That was the last lesson.",
  questionRight: "question answered right", questionWrong: "question answered wrong", questionSkipped: "question skipped", questionOpen: "question open",
  taskSolved: "task solved", taskOpen: "task open", done_of: "done", required: "Fill in every field.",
});

Object.assign(WORDS.zh, {
  lessons: "课程", lesson: "第", ownLesson: "自己的课程", allLessons: "全部课程", lessonsIntroduction:
    "每一课都有一段短文、一个要在看到结果之前回答的问题、一次真实运行的回放（附有逐步讲解），以及一个通过实际运行来检验的任务。",
  question: "问题", answerLabel: "你的回答", unit_duration: "时长，例如 20s", unit_names: "成员的名字，或 none",
  unit_partitions: "partition，例如 orders 0-2", unit_word: "一个词", unit_number: "一个数字",
  submitAnswer: "回答", skipQuestion: "跳过此题", answerAgain: "重新回答", chooseFirst: "请先选择一个答案。",
  checking: "正在运行……", right: "回答正确", wrong: "不对", rightAnswer: "正确答案",
  replay: "回放", moments: "关键时刻", wholeStory: "完整过程", pictures: "用图表示这次运行",
  task: "任务", runTask: "运行", solution: "看一个答案", oneSolution: "一个可行的答案", solved: "任务完成。", notSolved: "还没有完成。",
  holds: "满足", fails: "不满足", from: "从", upTo: "到", runFile: "运行此文件", yourFile: "你的文件",
  noFile: "这个任务是你磁盘上的一个 Python 文件。写好之后，用 Ctrl-C 结束本页面的服务，再指定该文件重新启动：",
  fileNote: "每次运行都会重新读取此文件，并在单独的进程中执行。页面不会发送任何代码。",
  printed: "assignor 的输出", nextLesson: "下一课", previousLesson: "上一课", lastLesson: "这是最后一课。",
  questionRight: "问题答对", questionWrong: "问题答错", questionSkipped: "问题跳过", questionOpen: "问题未答",
  taskSolved: "任务完成", taskOpen: "任务未完成", done_of: "已完成", required: "请填写每一项。",
});
