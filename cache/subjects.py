"""Which words of a text name its subject: those that are no mere frame of asking. English and Chinese. Pure.

"How long does it take to get a mortgage?" is a frame around *mortgage*. What a text names tells whether it can be
understood by itself, and what an answer names tells whose question it was made for.
"""

import re
from collections.abc import Sequence

from cache.inflection import lemma
from cache.words import listed, words

_WORD = re.compile(r"[a-z][a-z'+#-]*|\d[\d.,:%-]*|[\u3400-\u9fff]+", re.IGNORECASE)
_HAN = re.compile(r"[\u3400-\u9fff]")
_FRAME = words("""
    a an the of to in on at for by with without from into onto about as and or but if than nor so because while i me my
    we us our you your yours be is are was were am been being do does did done doing have has had having can could may
    might must shall should will would what what's which who whom whose when where why how how's not no yes n't don't
    doesn't didn't isn't aren't can't won't there it this that these those he she they them please thanks hello hi ok
    get gets got getting give given go goes going take takes took taken make makes made making put use used using need
    needs needed want wants wanted like know tell say says said mean means show ask find see look let keep happen
    happens
    work works worked working thing things stuff way ways much many long often soon far big large lot lots bit little
    more less most least few several any some all every each just only also even still very really quite too now today
    later soon time times minute minutes hour hours day days week weeks month months year years duration cost costs
    price
    prices fee fees charge charges charged pay paid payment free money extra phone phones mobile smartphone app apps
    online computer website site tablet possible able allowed available start started finish
    finished end ends wrong fail fails failed failing problem problems issue issues error help helps step steps process
    option options plan plans kind type types sort part parts first second third next last other another one two three
    both explain explained explanation simply simple simpler easier easy short shorter brief detail details detailed
    word words understand question answer back up down out off over again then here there someone anyone everyone people
    person able right ready sure good bad best better new old total own exactly usually normally typically actually
    what's it's that's i'm i've i'd i'll you're we're they're per maybe else instead approximately roughly around
    through across between until till before after since against among within along behind off toward towards upon via
    during recommend suggest include includes included require requires required requirements deadline date limit
    minimum
    maximum document documents link number address form info information access send sent change changed
    """) - words("payment charge charged limit address number document documents link access plan")  # fmt: skip
# Words that name something only beside others.
THIN = words("document documents number link access plan limit payment charge charged address deadline")

_FRAME_ZH = re.compile(
    "|".join(
        sorted(
            listed("""
            怎么样 怎么办 怎么 如何 怎样 什么时候 什么 多长时间 多久 多长 多少钱 多少 几天 几个 几号 时候 时间 大概
            一般 通常 大约 需要 必须 应该 该 可以
            可不可以 能不能 能够 能否 能 会不会 会 要不要 要 有没有 有无 有 没有 没 是不是 是否 是 为什么 为何 为啥
            咋 咋回事 怎么回事 回事 原因 哪里 哪儿 哪 谁
            手机上 手机端 手机 电脑上 电脑 网上 线上 在线 客户端 APP app 操作 支持 办理 处理 解决 弄 做 办 搞 成功
            失败 有用 没用 好用 完成 好 用 说 讲
            解释 介绍 告诉 简单 通俗 容易 懂 明白 详细 具体 一点 一下 一些 点 些 再 更 话 的话 我们 我 你们 你 您
            请问 请 帮忙 帮 想要 想 如果 要是
            收费 免费 费用 手续费 付费 付钱 付手续费 钱 花 步骤 方法 办法 流程 要求 条件 区别 例子 举例 里面 里 上
            中 在 就 都 也 还 和 与 或 到 把 被 给 对 从 个 这
            那 几 的 了 吗 呢 吧 啊 呀 嘛 么 得 地 着 过 不行 不 来 去 让 使 又 很 太 最 直接 现在 今天 马上 东西
            问题 情况 事情 事 通过 关于 之后 以后
            生效 到账 什么样 知道 找 看 出 是什么 有哪些 哪些
            """),
            key=len,
            reverse=True,
        )
    )
)


def subjects(text: str) -> frozenset[str]:
    """The words of a text that name its subject: no frame, in base form; of Chinese, pairs of characters."""
    found: set[str] = set()
    for word in _WORD.findall(text.replace("’", "'").lower()):
        if word[0].isascii():
            base = word.strip("'-.,:").removesuffix("'s")
            if base and base not in _FRAME and lemma(base) not in _FRAME and (len(base) > 2 or base[0].isdigit()):
                found.add(lemma(base))
        else:
            for piece in _FRAME_ZH.split(word):
                found.update(piece[at : at + 2] for at in range(len(piece) - 1))
    return frozenset(found)


def borrowed(answer: str, own: Sequence[str], others: Sequence[str]) -> str | None:
    """A subject that the answer speaks of and that only the other turns named; None = there is none.

    own: the question and the turns that it is understood with.  others: what the asker said besides."""
    theirs = frozenset[str]().union(*map(subjects, others)) - frozenset[str]().union(*map(subjects, own))
    if not theirs:
        return None
    return min(theirs & subjects(answer), default=None)


def own_han(text: str) -> str:
    """What is left of a text without its frame: Chinese characters and Latin words."""
    left = _FRAME_ZH.sub("", text)
    return "".join(_HAN.findall(left)) + "".join(
        word for word in re.findall(r"[A-Za-z][A-Za-z+#]+|\d+", left) if word.lower() not in _FRAME
    )
