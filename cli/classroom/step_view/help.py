"""The text behind the key `?`."""

from typing import Final

from regroup.classroom.languages import Language

HELP: Final = """\
→ n     the next event               home  the first event
← p     the event before             end   the last event
page down, page up                   ten events
g G     the next, the previous rebalance
d D     the next, the previous deadline that ran out
m M     the next, the previous recorded request or response, also between
        events: the clocks run down to it
: /     go to a position (120), a time since the start (90s), a UTC time
o       pass over events about offsets, or show them again
space   play and pause; + and - change the speed
tab     the next group, at the same position of the store
↑ ↓     scroll members, partitions and clocks
e       the event as JSON
x       the request and the response as JSON, where they were recorded
q       quit

State       ▶ is the present state, › may follow; "before": the group came
            from there. The heading names the last move.
Members     ★ leads; ▸ is named by the event. "new": in no generation yet;
            "–": owns nothing; "held": the coordinator has the request and
            has not answered it.
Clocks      What is left of each deadline, and what follows; then sessions,
            by member, where requests were recorded. "≥": it may be more,
            because the times of some heartbeats are not known. A member
            whose request is held has no session clock.
Partitions  The owner. "none, assigned anna": the coordinator has it assigned
            to anna, who gave it up or has not received it. "!!": several own
            it, or believe so (recorded of simulations alone).
Event       "!": a request that went wrong between this event and the next.
Line        The whole history by events: ▒ a rebalance runs, ● is here.

Everything is the state after the event, as `regroup replay --at` has it.
"""

HELP_IN_CHINESE: Final = """\
→ n     下一个事件                home  第一个事件
← p     上一个事件                end   最后一个事件
page down、page up                十个事件
g G     下一次、上一次 rebalance
d D     下一个、上一个到了的期限
m M     下一个、上一个记录的请求或响应，也在事件之间：计时走到那一刻
: /     跳到一个位置（120）、从启动算起的时间（90s）或 UTC 时间
o       跳过关于 offset 的事件，或重新显示
space   播放和暂停；+ 和 - 改变速度
tab     下一个 group，在 store 的同一个位置
↑ ↓     滚动成员、计时和 partition
e       事件的 JSON
x       请求和响应的 JSON（如果有记录）
q       退出

状态       ▶ 是现在的状态，› 可能接着出现；“之前”：group 从那个状态过来。
           标题是最近一次变化。
成员       ★ 是 leader；▸ 是事件提到的成员。“新成员”：还不在任何 generation
           里；“–”：没有 partition；“等待响应”：coordinator 收到了请求，还没有
           响应。
计时       每个期限还剩多少，到期后会怎样；然后是各成员的 session（如果记录了
           请求）。“≥”：可能更多，因为有些 heartbeat 的时间不知道。请求在等待
           响应的成员没有 session 计时。
partition  拥有者。“无，分配给 anna”：coordinator 把它分配给了 anna，而 anna
           已经交出，或还没有收到。“!!”：有几个成员拥有它，或以为拥有它（只有
           模拟才记录）。
事件       “!”：这个事件与下一个之间出错的请求。
线         按事件画出的全部历史：▒ 正在 rebalance，● 是现在的位置。

全部是事件之后的状态，与 `regroup replay --at` 相同。
"""


def help_text(language: Language) -> str:
    """The help that the key `?` shows, in a language."""
    return HELP if language is Language.ENGLISH else HELP_IN_CHINESE
