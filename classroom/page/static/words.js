"use strict";
// The labels of the page in English and Simplified Chinese. Kafka's own terms stay English in both.

const WORDS = {
  en: {
    title: "Group", view: "View", sequence: "Sequence", ownership: "Ownership", states: "State machine",
    clocks: "Clocks", offsets: "Offsets", compare: "Compare",
    play: "Play", pause: "Pause", back: "Step back", step: "Step", first: "First event", last: "Last event",
    nextDeadline: "Next deadline", nextRebalance: "Next rebalance", lastDeadline: "Previous deadline",
    lastRebalance: "Previous rebalance", speed: "Speed", deadlineShort: "deadline", zoomIn: "Zoom in", zoomOut: "Zoom out", fit: "Whole history",
    trueTime: "Time to scale", theme: "Dark or light", large: "Large", help: "Keys", language: "中文", close: "Close",
    run: "History", beside: "Beside", position: "Position in the history", table: "As a table",
    moment: "This moment", event: "Event", cause: "Cause", followed: "What followed", sameCause: "of the same cause",
    noCause: "not recorded", nothingFollowed: "Nothing: this is the last event.", since: "since", at: "at",
    state: "State", generation: "Generation", leader: "Leader", none: "none", coordinator: "Coordinator",
    member: "Member", phase: "Phase", held: "Held for", owns: "Owns", assignedTo: "Assigned to", partition: "Partition",
    owner: "Owner", noOwner: "no owner", twoOwners: "two owners", kind: "Deadline", remaining: "Remaining",
    follows: "What follows", offset: "Committed offset", committedAt: "Committed", lag: "Lag", removed: "removed",
    left: "left", replaced: "replaced", lost: "lost", deleted: "deleted", epoch: "coordinator epoch",
    number: "event number", protocol: "Assignor", noDeadline: "No deadline of the group runs now.",
    notRecorded: "Not recorded", sessionClocks: "Session timeouts: not recorded. Events do not say when a member was last seen.",
    "missing session clocks": "session clocks", "missing lost messages": "lost messages",
    "missing refused requests": "refused requests", "missing the members' own views": "the members' own views",
    request: "Request", response: "Answer", why: "Why", requests: "Requests that went wrong", believed: "Members' own view",
    believedStrip: "the members' own view", refused: "refused; × lost", sessionsTooMany: "Session timeouts: too many members and requests to show them here.",
    requestsNotRecorded: "Requests and answers: not recorded.", "fate answered": "answered", "fate refused": "refused", "fate unanswered": "not answered",
    "fate closed": "no answer", "fate request lost": "lost on its way", "fate response lost": "its answer was lost",
    "fate late": "late", "fate repeated": "handled twice",
    lagNotRecorded: "Log ends and lag: not recorded.", twiceNotRecorded: "Records that were read twice: not recorded.",
    lagAsOf: "A log ends where the last recorded response to Fetch, Produce or ListOffsets says; it may have grown since.",
    logEnd: "End of the log", readTwice: "Read twice",
    noBroker: "no broker runs", nothingFollows: "No broker runs: nothing follows when a deadline ends, until one starts.",
    heldByRule: "held by a fault rule", otherAddress: "is no event of this group. Shown is",
    wentBack: "went back: these records are read again", noOffsets: "No offset has been committed in this history.",
    noPartitions: "No member has subscribed to a topic whose partitions are known.",
    before: "before this history", lastMove: "Last move", noMove: "The group has made no move yet.",
    present: "present", possible: "may follow", taken: "taken", loadedMove: "by a coordinator load",
    more: "more", showAll: "Show all", total: "Total", trimmed: "Earlier events have been trimmed.",
    loading: "Reading the history …", failed: "The history could not be read", oldBrowser: "This browser cannot unpack the data (DecompressionStream is missing). Use a newer one.",
    joinHeld: "JoinGroup held", syncHeld: "SyncGroup held", rebalance: "rebalance", gap: "no owner",
    given: "assigned, not owned", ownedBy: "owned by", keysTitle: "Keys",
    duration_ms: "Length of the history", events: "Events", member_ids: "Member ids", leftCount: "Members that left",
    removedCount: "Members removed", rebalances: "Rebalances", rebalancing_ms: "Time in rebalances",
    longest_rebalance_ms: "Longest rebalance", unowned_partition_ms: "Partition time without an owner",
    longest_gap_ms: "Longest time without an owner", moved_partitions: "Partitions that moved", commits: "Commits",
    groupEpoch: "Group epoch", revoked: "its owner has to give it up", revoking: "UNREVOKED_PARTITIONS", waiting: "UNRELEASED_PARTITIONS", reconciling: "target not reached",
    unowned: "partitions without an owner", needsTwo: "Open two stores to compare them: regroup view A.db B.db",
    phaseHeld: "held", phaseExpected: "expected", phaseAssigned: "assigned",
    actions: "Actions", difference: "Difference",
    keyPlay: "play or pause", keyStep: "step back, step", keyEnds: "first event, last event",
    keyDeadline: "next deadline (with Shift: previous)", keyRebalance: "next rebalance (with Shift: previous)",
    keySpeed: "slower, faster", keyZoom: "zoom out, zoom in, whole history", keyViews: "the views",
    keyLook: "dark or light, large, time to scale", keyHelp: "this list",
  },
  zh: {
    title: "消费者组", view: "视图", sequence: "时序", ownership: "分区归属", states: "状态机",
    clocks: "时钟", offsets: "Offset", compare: "对比",
    play: "播放", pause: "暂停", back: "后退一步", step: "前进一步", first: "第一个事件", last: "最后一个事件",
    nextDeadline: "下一个到期", nextRebalance: "下一次 rebalance", lastDeadline: "上一个到期",
    lastRebalance: "上一次 rebalance", speed: "速度", deadlineShort: "到期", zoomIn: "放大", zoomOut: "缩小", fit: "完整历史",
    trueTime: "按真实时间比例", theme: "深色或浅色", large: "大字", help: "快捷键", language: "English", close: "关闭",
    run: "历史", beside: "对照", position: "在历史中的位置", table: "以表格显示",
    moment: "此刻", event: "事件", cause: "起因", followed: "随后发生", sameCause: "同一起因",
    noCause: "未记录", nothingFollowed: "没有：这是最后一个事件。", since: "自", at: "于",
    state: "状态", generation: "Generation", leader: "Leader", none: "无", coordinator: "Coordinator",
    member: "成员", phase: "阶段", held: "已挂起", owns: "拥有", assignedTo: "分配给", partition: "分区",
    owner: "拥有者", noOwner: "无人拥有", twoOwners: "两个拥有者", kind: "期限", remaining: "剩余",
    follows: "到期后", offset: "已提交 offset", committedAt: "提交时间", lag: "Lag", removed: "被移除",
    left: "离开", replaced: "被替换", lost: "丢失", deleted: "已删除", epoch: "coordinator epoch",
    number: "事件编号", protocol: "Assignor", noDeadline: "当前没有组级期限在计时。",
    notRecorded: "未记录", sessionClocks: "Session timeout：未记录。事件中没有成员最近一次心跳的时间。",
    "missing session clocks": "session 计时", "missing lost messages": "丢失的消息",
    "missing refused requests": "被拒绝的请求", "missing the members' own views": "成员自己的视角",
    request: "请求", response: "响应", why: "原因", requests: "出错的请求", believed: "成员自己的视角",
    believedStrip: "成员自己的视角", refused: "被拒绝；× 丢失", sessionsTooMany: "Session timeout：成员和请求太多，此处不显示。",
    requestsNotRecorded: "请求与响应：未记录。", "fate answered": "已响应", "fate refused": "被拒绝", "fate unanswered": "未响应",
    "fate closed": "没有响应", "fate request lost": "途中丢失", "fate response lost": "响应丢失",
    "fate late": "迟到", "fate repeated": "被处理两次",
    lagNotRecorded: "日志末尾与 lag：未记录。", twiceNotRecorded: "被重复读取的记录：未记录。",
    lagAsOf: "日志末尾以最近一次被记录的 Fetch、Produce 或 ListOffsets 响应为准，此后可能又有增长。",
    logEnd: "日志末尾", readTwice: "重复读取",
    noBroker: "没有 broker 在运行", nothingFollows: "没有 broker 在运行：在某个 broker 启动之前，到期后不会发生任何事。",
    heldByRule: "被故障规则扣住", otherAddress: "不是该组的事件。当前显示的是",
    wentBack: "回退：这些记录会被再次读取", noOffsets: "这段历史中没有提交过 offset。",
    noPartitions: "没有成员订阅过分区数已知的 topic。",
    before: "在这段历史之前", lastMove: "最近一次转移", noMove: "该组尚未发生状态转移。",
    present: "当前", possible: "可能的下一状态", taken: "次数", loadedMove: "由 coordinator 加载引起",
    more: "更多", showAll: "全部显示", total: "合计", trimmed: "更早的事件已被裁剪。",
    loading: "正在读取历史……", failed: "无法读取历史", oldBrowser: "此浏览器无法解压数据（缺少 DecompressionStream），请使用较新的浏览器。",
    joinHeld: "JoinGroup 挂起", syncHeld: "SyncGroup 挂起", rebalance: "rebalance", gap: "无人拥有",
    given: "已分配、未拥有", ownedBy: "拥有者", keysTitle: "快捷键",
    duration_ms: "历史长度", events: "事件数", member_ids: "Member id 数", leftCount: "主动离开的成员",
    removedCount: "被移除的成员", rebalances: "Rebalance 次数", rebalancing_ms: "Rebalance 总时长",
    longest_rebalance_ms: "最长的 rebalance", unowned_partition_ms: "分区无人拥有的累计时间",
    longest_gap_ms: "最长的无人拥有时间", moved_partitions: "更换拥有者的分区次数", commits: "提交次数",
    groupEpoch: "Group epoch", revoked: "拥有者须交出", revoking: "UNREVOKED_PARTITIONS", waiting: "UNRELEASED_PARTITIONS", reconciling: "尚未到达目标分配",
    unowned: "无人拥有的分区", needsTwo: "打开两个 store 才能对比：regroup view A.db B.db",
    phaseHeld: "挂起", phaseExpected: "待发送", phaseAssigned: "已分配",
    actions: "操作", difference: "差值",
    keyPlay: "播放或暂停", keyStep: "后退、前进一步", keyEnds: "第一个、最后一个事件",
    keyDeadline: "下一个到期（加 Shift：上一个）", keyRebalance: "下一次 rebalance（加 Shift：上一次）",
    keySpeed: "减速、加速", keyZoom: "缩小、放大、完整历史", keyViews: "切换视图",
    keyLook: "深浅色、大字、真实时间比例", keyHelp: "显示此列表",
  },
};

const language = (new URLSearchParams(location.search).get("language") ?? globalThis.document?.documentElement.lang) === "zh" ? "zh" : "en";

/** The label of this name in the page's language. */
function word(name) {
  return WORDS[language][name] ?? WORDS.en[name] ?? name;
}

/** A length of time, as stories and lessons write it: 300 ms, 1.25 s, 300 s, 10 min, 7 days. */
function durationText(milliseconds) {
  const ms = Math.round(milliseconds);
  if (ms < 1000) return `${ms} ms`;
  if (ms % 86_400_000 === 0) return ms === 86_400_000 ? "1 day" : `${ms / 86_400_000} days`;
  if (ms >= 600_000 && ms % 60_000 === 0) return `${ms / 60_000} min`;
  return `${ms / 1000} s`;
}

/** How long after another time: after 3.001 s. */
function laterText(milliseconds) {
  const seconds = `${(milliseconds / 1000).toFixed(3)} s`;
  return language === "zh" ? `${seconds} 后` : `after ${seconds}`;
}

/** A time that runs, with as many digits as a glance needs: 15.8 min, 20.1 s, 300 ms. */
function leftText(milliseconds) {
  const ms = Math.max(0, Math.round(milliseconds));
  if (ms >= 600_000) return `${(ms / 60_000).toFixed(1)} min`;
  return ms >= 1000 ? `${(ms / 1000).toFixed(1)} s` : `${ms} ms`;
}

/** A time since the begin of the history, as lessons and `regroup step` write it: +103.017 s. */
function sinceText(milliseconds) {
  return `${milliseconds < 0 ? "−" : "+"}${(Math.abs(milliseconds) / 1000).toFixed(3)} s`;
}

/** Characters that would not be seen, or would change the direction of what follows, as escapes: names come from any client. */
function shown(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu, (each) => `\\u{${each.codePointAt(0).toString(16)}}`);
}

/** `orders 0-3, payments 1` from pairs of topic and index that are in order. */
function partitionsText(partitions) {
  const byTopic = new Map();
  for (const { topic, index } of partitions) {
    if (!byTopic.has(topic)) byTopic.set(topic, []);
    byTopic.get(topic).push(index);
  }
  return [...byTopic].map(([topic, indexes]) => `${topic} ${rangesText(indexes)}`).join(", ");
}

/** `0-3,7` */
function rangesText(indexes) {
  const parts = [];
  for (let first = 0; first < indexes.length; ) {
    let last = first;
    while (last + 1 < indexes.length && indexes[last + 1] === indexes[last] + 1) last++;
    parts.push(first === last ? `${indexes[first]}` : `${indexes[first]}-${indexes[last]}`);
    first = last + 1;
  }
  return parts.join(",");
}
