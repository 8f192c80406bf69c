"use strict";
// Further labels of a page whose histories are still being written.

Object.assign(WORDS.en, {
  live: "live", toTheEnd: "Follow the newest event", handsOn: "Hands on", audience: "This page is for an audience: it shows, and does not act.",
  noGroup: "No group exists yet. It appears here with its first member.", reconnecting: "The connection is lost; trying again.",
  down: "The brokers are down.", addMember: "Add a member", group: "Group", topic: "Topic", assignor: "Assignor", name: "Name",
  nameHint: "member-1, …", sessionSeconds: "Session timeout in s", isStatic: "static", add: "Add", members: "Members",
  condition: "Condition", believes: "Believes it owns", session: "Session ends in", acts: "Actions", crash: "Crash", pauseMember: "Pause", resume: "Resume",
  leave: "Leave", slow: "Slow", notSlow: "Not slow", slowSeconds: "Slow: s outside poll()", hold: "Hold next SyncGroup",
  release: "Release SyncGroup", startAgain: "Start again", remove: "Remove", revive: "Revive", topics: "Topics",
  partitions: "Partitions", createOrExtend: "Create or extend", brokers: "Brokers", broker: "Broker", stop: "Stop", start: "Start",
  brokersRun: "brokers run", running: "running", stopped: "stopped", done: "Done", unnamed: "(no client id)", notSimulated: "a real client",
  noMembers: "No member runs here.", condition_running: "running", condition_paused: "paused",
  condition_restarting: "restarting", condition_zombie: "zombie", condition_crashed: "crashed", condition_left: "left",
  condition_failed: "failed",
});

Object.assign(WORDS.zh, {
  live: "实时", toTheEnd: "跟随最新事件", handsOn: "动手操作", audience: "此页面供观众使用：只能看，不能操作。",
  noGroup: "还没有消费者组。第一个成员加入后会显示在这里。", reconnecting: "连接已断开，正在重试。",
  down: "Broker 已停止。", addMember: "添加成员", group: "组", topic: "Topic", assignor: "Assignor", name: "名称",
  nameHint: "member-1 ……", sessionSeconds: "Session timeout（秒）", isStatic: "静态成员", add: "添加", members: "成员",
  condition: "状况", believes: "自认为拥有", session: "Session 剩余", acts: "操作", crash: "崩溃", pauseMember: "暂停", resume: "恢复",
  leave: "离开", slow: "变慢", notSlow: "不再变慢", slowSeconds: "变慢：在 poll() 之外的秒数", hold: "扣住下一个 SyncGroup",
  release: "放行 SyncGroup", startAgain: "重新启动", remove: "删除", revive: "复活", topics: "Topic",
  partitions: "分区数", createOrExtend: "创建或扩充", brokers: "Broker", broker: "Broker", stop: "停止", start: "启动",
  brokersRun: "个 broker 在运行", running: "运行中", stopped: "已停止", done: "完成", unnamed: "（无 client id）", notSimulated: "真实客户端",
  noMembers: "这里没有成员在运行。", condition_running: "运行中", condition_paused: "已暂停",
  condition_restarting: "正在重启", condition_zombie: "zombie", condition_crashed: "已崩溃", condition_left: "已离开",
  condition_failed: "已失败",
});
