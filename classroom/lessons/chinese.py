"""The story of a group in Chinese, for lessons. Kafka's own terms stay English."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from regroup.classroom.sentences import assigned_text
from regroup.classroom.story import CommitCounter, StoryLine, gaps_of
from regroup.classroom.timeline import GroupTimeline, Rebalance, TimelineMoment
from regroup.classroom.wording import MemberNames, partitions_text
from regroup.coordinator import events as e
from regroup.coordinator.events import Event
from regroup.coordinator.group import GroupState
from regroup.server.explanation.sentences import duration_text

LEFT_OUT: Final = (e.MemberSynced, e.MemberRejoined)
"""Events that have a sentence, and repeat what a rebalance implies."""

REASONS: Final = (
    (r"member (\S+) joined", r"成员 \1 加入"),
    (r"member (\S+) expired", r"成员 \1 的 session 过期"),
    (r"(?:member )?(\S+) left", r"成员 \1 离开"),
    (r"members did not send SyncGroup in time", r"有成员没有及时发送 SyncGroup"),
    (r"member (\S+) changed its supported protocols", r"成员 \1 改变了它支持的 assignor 或订阅"),
    (r"leader (\S+) rejoined: (.*)", r"leader \1 重新加入（\2）"),
    (r"leader (\S+) rejoined", r"leader \1 重新加入"),
    (r"leader (\S+) was removed", r"leader \1 被移除"),
    (r"session timeout of (\d+) ms expired", r"\1 ms 的 session timeout 已到"),
    (r"did not rejoin within the rebalance timeout of (\d+) ms", r"未在 \1 ms 的 rebalance timeout 内重新加入"),
    (r"did not send SyncGroup in time", r"没有及时发送 SyncGroup"),
    (r"first member", r"第一个成员"),
    (r"first JoinGroup", r"第一个 JoinGroup"),
    (r"members joined during the initial delay", r"初始等待期间又有成员加入"),
    (r"consumer poll timeout has expired", r"两次 poll() 的间隔超过了 max.poll.interval.ms"),
    (r"no members remain", r"没有成员了"),
    (r"the leader has not joined this generation", r"leader 没有加入这个 generation"),
    (r"the consumer is being closed", r"consumer 正在关闭"),
    (r"static member (\S+) restarted and changed the group's protocol or state",
     r"静态成员 \1 重启，并改变了 group 的 protocol 或状态"),
)  # fmt: skip
"""Reasons of events, and their translations. A reason that is not here stays as it is."""


STEPS: Final = (
    (r"(\S+) joins", r"\1 启动"),
    (r"(\S+) leaves", r"\1 正常关闭"),
    (r"(\S+) crashes", r"\1 崩溃"),
    (r"(\S+) pauses for (\S+)", r"\1 停顿 \2"),
    (r"(\S+) restarts after (\S+)", r"\1 重启，\2 后恢复"),
    (r"(\S+) restarts without its instance id after (\S+)", r"\1 重启，\2 后恢复，不再带 instance id"),
    (r"(\S+) requests a rebalance", r"\1 请求 rebalance"),
    (r"(\S+) becomes a zombie", r"\1 停顿，之后成为 zombie"),
    (r"(.+) is cut off from (.+) for (\S+)", r"\1 与 \2 之间断网 \3"),
    (r"broker (\d+) stops for (\S+)", r"broker \1 停止 \2"),
    (r"the brokers crash for (\S+)", r"所有 broker 崩溃，持续 \1"),
    (r"topic (\S+) grows to (\d+) partitions?", r"topic \1 增加到 \2 个 partition"),
    (r"topic (\S+) is created with (\d+) partitions?", r"创建 topic \1，\2 个 partition"),
    (r"topic (\S+) is deleted", r"删除 topic \1"),
    (r"(\S+)'s next (\S+) is lost", r"\1 的下一个 \2 请求丢失"),
    (r"the response to (\S+)'s next (\S+) is lost", r"\1 的下一个 \2 的响应丢失"),
)
"""Sentences of scenarios, and their translations. One that is not here stays as it is."""


def chinese_step(sentence: str) -> str:
    """A step of a scenario in Chinese."""
    for pattern, translation in STEPS:
        if match := re.fullmatch(pattern, sentence):
            return match.expand(translation)
    return sentence


def chinese_reason(reason: str) -> str:
    """The reason of an event in Chinese."""
    for pattern, translation in REASONS:
        if match := re.fullmatch(pattern, reason.rstrip(".")):
            return match.expand(translation)
    return reason.rstrip(".")


def chinese_moment(moment: TimelineMoment, names: MemberNames) -> str:
    """One sentence about a moment; empty for events that only continue what another one says."""
    describe = SENTENCES.get(type(moment.event))
    return describe(moment.event, moment, names) if describe else ""


def chinese_story(timeline: GroupTimeline) -> Iterator[StoryLine]:
    """The sentences of a group's life in the order of the events; the last one is about its end."""
    yield from sorted(_event_lines(timeline), key=lambda line: line.position)
    if timeline.moments:
        yield StoryLine(*timeline.moments[-1].point, _end_state(timeline, MemberNames(timeline.names)))


def _event_lines(timeline: GroupTimeline) -> Iterator[StoryLine]:
    names, commits = MemberNames(timeline.names), CommitCounter()
    ends = {each.ended.position: each for each in timeline.rebalances if each.ended}
    for moment in timeline.moments:
        if isinstance(moment.event, e.RebalanceStarted | e.CoordinatorLoaded):
            yield from _commits(commits, names)
        commits.on_moment(moment)
        sentence = chinese_moment(moment, names)
        if sentence and not isinstance(moment.event, LEFT_OUT):
            yield StoryLine(moment.position, moment.at_ms, sentence)
        ended = ends.get(moment.position)
        if ended is not None and isinstance(moment.event, e.AssignmentCommitted):
            yield StoryLine(moment.position, moment.at_ms, _cost(timeline, ended))
    yield from _commits(commits, names)


def _commits(commits: CommitCounter, names: MemberNames) -> Iterator[StoryLine]:
    """The counted commits; their English lines name the members and offsets."""
    for line in commits.lines(names):
        match = re.fullmatch(r"(.*) committed (.*), up to (.*)\.", line.text)
        if match:
            count = {"once": "1", "twice": "2"}.get(match[2], match[2].removesuffix(" times"))
            reached = match[3].replace(" at ", " 到 ").replace(" and ", "、")
            who = "一个非成员的客户端" if match[1] == "A client that is no member" else match[1]
            line = line._replace(text=f"{who} 提交 offset {count} 次：{reached}。")
        yield line


def _cost(timeline: GroupTimeline, rebalance: Rebalance) -> str:
    assert rebalance.ended is not None
    took = f"这次 rebalance 用了 {duration_text(rebalance.ended.at_ms - rebalance.began.at_ms)}。"
    gaps = dict(gaps_of(timeline, rebalance))
    if not gaps:
        return f"{took}每个 partition 始终有拥有者。"
    longest = duration_text(max(gaps.values()))
    return f"{took}在成员收到分配之前没有拥有者：{partitions_text(gaps)}，最长 {longest}。"


def _end_state(timeline: GroupTimeline, names: MemberNames) -> str:
    moment = timeline.moments[-1]
    if moment.state is GroupState.DEAD:
        return "最后，group 不存在。"
    leader = f"，leader 是 {names[moment.leader_id]}" if moment.leader_id else ""
    parts = [f"最后，group 处于 {moment.state}，generation {moment.generation_id}{leader}。"]
    owned: dict[str, list[Any]] = {each: [] for each in moment.members}
    for span in timeline.ownership_at(moment.position):
        for member_id in span.owners:
            owned.setdefault(member_id, []).append(span.partition)
    shares = [f"{names[each]} 拥有 {partitions_text(partitions) if partitions else '0 个 partition'}"
              for each, partitions in owned.items()]  # fmt: skip
    return parts[0] + ("；".join(shares) + "。" if shares else "")


def _because(event: Event, names: MemberNames) -> str:
    return f"（{names.within(chinese_reason(event.reason))}）" if event.reason else ""


def _joined(event: e.MemberJoined, moment: TimelineMoment, names: MemberNames) -> str:
    profile = event.profile
    assignors = ", ".join(each.name for each in profile.supported_protocols)
    static = f"静态成员，instance id {profile.instance_id}；" if profile.instance_id is not None else ""
    return (
        f"{names[event.member_id]} 加入（{static}assignor：{assignors}；"
        f"session timeout {duration_text(profile.session_timeout_ms)}）。"
    )


def _replaced(event: e.StaticMemberReplaced, moment: TimelineMoment, names: MemberNames) -> str:
    then = "它要等待 rebalance" if event.awaits_join else "它不经 rebalance 就保留原来的分配"
    return (
        f"{names[event.member_id]} 接替了静态成员 {event.instance_id}，"
        f"从此 {names[event.replaced_member_id]} 的请求会被拒绝（fenced）；{then}。"
    )


def _rebalance_started(event: e.RebalanceStarted, moment: TimelineMoment, names: MemberNames) -> str:
    limit = duration_text(max(0, event.deadline_ms - event.at_ms))
    phase = f"持续 {limit}，有成员加入则更久" if event.is_initial else f"最长 {limit}"
    return f"rebalance 开始{_because(event, names)}。join 阶段{phase}。"


def _generation_started(event: e.GenerationStarted, moment: TimelineMoment, names: MemberNames) -> str:
    members = "、".join(names[each] + "（leader）" * (each == event.leader_id) for each in moment.members)
    return f"generation {event.generation_id} 开始：{members}；assignor {event.protocol_name}。"


def _assignment_written(event: e.AssignmentWritten, moment: TimelineMoment, names: MemberNames) -> str:
    shares = [f"{names[member_id]} 得到 {_assigned(data)}" for member_id, data in event.assignments.items()]
    leader = names[moment.leader_id] if moment.leader_id else "leader"
    return f"{leader} 的 assignor 计算出：{'；'.join(shares) or '没有任何分配'}。"


def _assigned(data: bytes) -> str:
    text = assigned_text(data)
    return "0 个 partition" if text == "nothing" else text


def _synced(event: e.MemberSynced, moment: TimelineMoment, names: MemberNames) -> str:
    then = "等待分配" if event.awaits_assignment else "收到分配"
    return f"{names[event.member_id]} 发送 SyncGroup，{then}。"


def _loaded(event: e.CoordinatorLoaded, moment: TimelineMoment, names: MemberNames) -> str:
    lost = f"随前一个 coordinator 丢失的有：{'；'.join(map(names.within, event.lost))}。" if event.lost else ""
    return f"一个 coordinator 从日志加载了 group（coordinator epoch {moment.coordinator_epoch}）。{lost}"


SENTENCES: Final[dict[type[Event], Callable[[Any, TimelineMoment, MemberNames], str]]] = {
    e.GroupCreated: lambda event, moment, names: (
        f"group 由第一个 {'JoinGroup' if event.by_join else 'offset 提交'} 创建。"
    ),
    e.MemberJoined: _joined,
    e.MemberRejoined: lambda event, moment, names: (
        f"{names[event.member_id]} 再次发送 JoinGroup{_because(event, names)}。"
    ),
    e.StaticMemberReplaced: _replaced,
    e.LeaderElected: lambda event, moment, names: f"{names[event.leader_id]} 成为 leader{_because(event, names)}。",
    e.RebalanceStarted: _rebalance_started,
    e.JoinPhaseExtended: lambda event, moment, names: (
        f"join 阶段再延长 {duration_text(max(0, event.deadline_ms - event.at_ms))}{_because(event, names)}。"
    ),
    e.GenerationStarted: _generation_started,
    e.GenerationRaised: lambda event, moment, names: f"generation 未经 rebalance 提高到 {event.generation_id}。",
    e.GroupEmptied: lambda event, moment, names: f"group 没有成员了：状态 Empty，generation {event.generation_id}。",
    e.MemberSynced: _synced,
    e.AssignmentWritten: _assignment_written,
    e.AssignmentCommitted: lambda event, moment, names: (
        f"分配已提交：group 进入 Stable，generation {moment.generation_id}。"
    ),
    e.MemberLeft: lambda event, moment, names: f"{names[event.member_id]} 离开{_because(event, names)}。",
    e.MemberRemoved: lambda event, moment, names: f"{names[event.member_id]} 被移除{_because(event, names)}。",
    e.PendingMemberRemoved: lambda event, moment, names: (
        f"member id {names[event.member_id]} 在使用之前被移除{_because(event, names)}。"
    ),
    e.CoordinatorLoaded: _loaded,
    e.AppendFailed: lambda event, moment, names: f"Kafka 的日志没有写入一条记录{_because(event, names)}。",
    e.AppendTimedOut: lambda event, moment, names: "Kafka 的日志没有及时提交一条记录。",
    e.OffsetsDeleted: lambda event, moment, names: f"一些已提交的 offset 被删除{_because(event, names)}。",
    e.GroupDeleted: lambda event, moment, names: f"group 被删除{_because(event, names)}。",
}
"""The same events as in English; the others are about offsets, or continue what one of these says."""
