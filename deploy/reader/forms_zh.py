"""Chinese questions in another form: `reworded` asks the same, `misasked` sounds alike and asks for something else."""

import random
import re
from pathlib import Path

from frames import alternatives, families, said_otherwise

_SLOT = r"[^？?！!。；;，,]{1,22}?"
_FAMILIES = families(Path(__file__).parent / "frames" / "zh.txt", _SLOT, spaced=False)

_WORDS = alternatives("""
怎么 | 如何 | 怎样
什么时候 | 何时 | 啥时候
为什么 | 为啥 | 为何
什么 | 啥
多久 | 多长时间
吗 | 么
修改 | 更改 | 变更
查询 | 查看
忘记 | 忘了 | 不记得
手机号 | 手机号码 | 电话号码
账号 | 帐号 | 账户
取消订阅 | 退订
打不开 | 无法打开 | 开不了
登录 | 登陆 | 登入
立刻 | 马上 | 立即
丢了 | 弄丢了 | 不见了
坏了 | 出故障了 | 出毛病了
到账 | 入账
卡路里 | 热量
在哪里 | 在哪儿 | 在什么地方
去哪里 | 去哪儿
星期天 | 周日 | 礼拜天
地址 | 住址
价格 | 价钱
如果 | 要是 | 假如
小孩 | 孩子 | 小朋友
老人 | 老年人
医生 | 大夫
支付 | 付款
缴纳 | 交纳
收费 | 收钱 | 要钱
秋天 | 秋季
夏天 | 夏季
冬天 | 冬季
春天 | 春季
步骤 | 流程
材料 | 资料
失败 | 不成功
预订 | 预定
电脑 | 计算机
没法 | 无法
""")  # fmt: skip

# Verbs that take what the question is about as their object: 社保卡怎么激活 = 怎么激活社保卡
_VERBS = [
    "激活",
    "办理",
    "修改",
    "更改",
    "取消",
    "申请",
    "查询",
    "查看",
    "设置",
    "开通",
    "关闭",
    "注销",
    "退订",
    "删除",
    "打开",
    "下载",
    "安装",
    "卸载",
    "更新",
    "升级",
    "绑定",
    "解绑",
    "使用",
    "兑换",
    "领取",
    "提取",
    "充值",
    "缴纳",
    "支付",
    "购买",
    "预订",
    "预约",
    "预定",
    "修复",
    "修理",
    "清洗",
    "清理",
    "恢复",
    "重置",
    "找回",
    "导出",
    "导入",
    "分享",
    "保存",
    "备份",
    "连接",
    "续费",
    "续签",
    "报销",
    "计算",
    "制作",
    "保养",
    "处理",
    "挂失",
    "补办",
    "解除",
    "解锁",
    "冻结",
    "解冻",
    "转让",
    "举报",
    "投诉",
    "联系",
    "增加",
    "减少",
    "提高",
    "降低",
    "改善",
    "治疗",
    "预防",
    "去除",
    "选择",
    "选",
    "存放",
    "保存",
    "做",
    "洗",
    "煮",
    "修",
    "换",
    "改",
    "查",
    "交",
    "退",
    "种",
    "养",
    "开",
    "关",
    "用",
    "买",
    "卖",
    "寄",
    "算",
    "订",
    "调",
    "装",
    "拆",
    "测",
    "停",
    "启用",
    "停用",
    "关掉",
    "取消掉",
    "验证",
    "认证",
    "登录",
    "注册",
    "提现",
    "退",
    "追踪",
    "撤回",
    "拒收",
    "签收",
    "合并",
    "拆分",
    "打印",
    "复印",
    "翻译",
    "转换",
    "压缩",
    "解压",
    "录制",
    "剪辑",
]
_VERB = "|".join(sorted(set(_VERBS), key=len, reverse=True))
_HOW = "怎么|如何|怎样|要怎么|该怎么|应该怎么|应该如何|要如何"
_TOPIC_FIRST = re.compile(rf"(?P<t>[^？?！!。；;，,怎如何么]{{2,12}}?)(?:{_HOW})(?P<v>{_VERB})(?:呢|啊|呀)?")
_VERB_FIRST = re.compile(rf"(?:我)?(?:{_HOW})(?P<v>{_VERB})(?P<t>[^？?！!。；;，,怎如何么吗的]{{2,12}})(?:呢|啊|呀)?")
_TOLD_FIRST = re.compile(
    r"(?P<t>[^？?！!。；;，,]{4,24})[，,。]"
    r"(?P<q>[^？?！!。；;，,]*(?:怎么|如何|吗|什么|哪|多久|多少|能不能|为什么|可不可以|谁|几)[^？?！!。；;，,]*)"
)
_ASKS = re.compile(r"怎么|如何|吗|什么|哪|多久|多少|能不能|为什么|可不可以|谁|几|如果|要是|从|和")
_HELLO = re.compile(r"^(?:请问|您好|你好|我想问一下|想问下)[，,]?")
# What turns a frame's meaning: 怎么办, 怎么还没, 能带多大的 … are no fillings of it.
_NO_FILLING = re.compile(
    r"^(?:办|样|了|回事|会|还|没|不|这|那|就|又|老|总|说|个|啦|着|多|大)|"
    r"怎么|如何|为什么|什么|多少|多久|哪|谁|几|吗|呢|能不能|可不可以|有没有|是不是|会不会|要不要"
)


def _fits(slots: dict[str, str]) -> bool:
    x, y = slots["x"], slots.get("y")
    if y is not None and (
        x[-1] in "不没多只就还最可才说什怎要能会使利作信费" or x.endswith(("可以", "没有")) or len(x) < 2
    ):
        return False  # 可以用, 信用, 不能, 没有 … are one word, and the frame would cut it
    if y is not None and y[0] in "多人着过了":
        return False
    return not any(_NO_FILLING.search(value) for value in (x, y) if value is not None)


def _cleaned(said: str, rng: random.Random) -> str:
    return said if said.endswith(("？", "?")) or rng.random() < 0.4 else said + "？"


def _core(text: str) -> str:
    return _HELLO.sub("", text.strip("？?。！! "))


def framed(text: str, rng: random.Random) -> str | None:
    """怎么X -> X的步骤是什么, 有没有X -> 有X吗"""
    said = said_otherwise(_core(text), _FAMILIES, _fits, rng, missing=False)
    return said and _cleaned(said, rng)


def turned_about(text: str, rng: random.Random) -> str | None:
    """社保卡怎么激活 = 怎么激活社保卡;  手机丢了，怎么办 = 怎么办？手机丢了"""
    core = _core(text)
    if match := _TOPIC_FIRST.fullmatch(core):
        t, v = match["t"], match["v"]
        ways = (
            f"怎么{v}{t}", f"如何{v}{t}", f"{t}如何{v}", f"{t}要怎么{v}", f"{v}{t}怎么操作", f"怎样才能{v}{t}",
            f"{v}{t}的方法", f"我想{v}{t}，怎么弄", f"{t}{v}方法", f"{t}{v}流程是什么", f"{t}应该怎么{v}", f"咋{v}{t}",
        )  # fmt: skip
    elif match := _VERB_FIRST.fullmatch(core):
        t, v = match["t"], match["v"]
        mine = t if t[0] in "我你他这" else f"我的{t}"
        ways = (
            f"{t}怎么{v}", f"{t}如何{v}", f"{t}要怎么{v}", f"{t}该怎么{v}", f"{t}怎样{v}", f"{t}{v}方法",
            f"{t}{v}的步骤", f"{t}{v}怎么操作", f"{mine}怎么{v}", f"{t}咋{v}",
        )  # fmt: skip
    elif (match := _TOLD_FIRST.fullmatch(core)) and not _ASKS.search(match["t"]):
        return f"{match['q']}{rng.choice('？，')}{match['t']}"
    else:
        return None
    return _cleaned(rng.choice(ways), rng)


def other_words(text: str, rng: random.Random) -> str | None:
    found = [(word, others) for word, others in _WORDS if word in text]
    found = [
        (word, others) for word, others in found if not any(word in longer and longer != word for longer, _ in found)
    ]
    if not found:
        return None
    word, others = rng.choice(found)
    other = rng.choice(others)
    return None if other in text else text.replace(word, other, 1)


def reworded(text: str, rng: random.Random) -> str | None:
    """The same question in another form, at times in other words, too."""
    said = None
    for way in rng.choice(((framed, turned_about), (turned_about, framed))):
        said = way(text, rng)
        if said:
            break
    return (other_words(said or text, rng) if said is None or rng.random() < 0.4 else None) or said


def misasked(text: str, rng: random.Random) -> str | None:
    said = said_otherwise(_core(text), _FAMILIES, _fits, rng, missing=True)
    return said and _cleaned(said, rng)


_SLIPS = alternatives("""
的 | 得 | 地
在 | 再
登录 | 登路 | 登陆
账 | 帐
密码 | 密吗 | 蜜码
那 | 哪
做 | 作
吗 | 嘛 | 麻
定 | 订
怎么 | 肿么 | 怎莫 | 咋么
什么 | 神马 | 什末
没有 | 木有 | 米有
知道 | 造
为什么 | 为森么
手机 | 手几
支付 | 只付
支付宝 | 支付保
微信 | 威信
快递 | 块递
地址 | 地止
退款 | 退欠
身份证 | 身份正
信用卡 | 信用咔
验证码 | 验正码
""")  # fmt: skip


def slip(text: str, rng: random.Random) -> str | None:
    """A slip of the input method: a sign that sounds alike."""
    found = [(word, others) for word, others in _SLIPS if word in text]
    if not found:
        return None
    word, others = rng.choice(found)
    return text.replace(word, rng.choice(others), 1)


_FILLERS = re.compile(r"请问|我想|我要|一下|的|了|呢|啊|呀|需要|应该|可以|我")


def keywords(text: str, rng: random.Random) -> str | None:
    """怎么修改我的收货地址 -> 修改 收货地址. Only how-to questions: there no filler decides."""
    if match := _VERB_FIRST.fullmatch(_core(text)):
        t, v = match["t"].removeprefix("我的"), match["v"]
        return rng.choice((f"{v}{t}", f"{t}{v}", f"{v} {t}", f"{t} 怎么 {v}", f"{t} {v} 方法"))
    if match := _TOPIC_FIRST.fullmatch(_core(text)):
        t, v = _FILLERS.sub("", match["t"]) or match["t"], match["v"]
        return rng.choice((f"{t}{v}", f"{v}{t}", f"{t} {v}", f"{v} {t} 怎么"))
    return None


_STORIES = (
    "我在网上找了半天都没找到，", "朋友让我来这里问问，", "不好意思打扰一下，", "不知道问得对不对，", "我有点搞不懂，",
    "我看了说明还是不明白，", "麻烦帮忙解答一下，", "我爱人问我我也不知道，", "问个小问题，", "一直有个疑问，",
    "我不太会弄这些，", "有人知道吗，",
)  # fmt: skip


def story(text: str, rng: random.Random) -> str | None:
    """Words around the question that change nothing about it."""
    if len(text) > 60:
        return None
    told = rng.choice(_STORIES)
    return told + text if rng.random() < 0.75 else f"{text.rstrip('？?。！! ')}？{told.rstrip('，')}"
